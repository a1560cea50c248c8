//! Tells systemd how the guard is, if systemd wants to know.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager.
pub(super) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear of the guard.
    pub(super) watchdog: Option<Duration>,
}

impl Manager {
    /// By the environment of this process.
    pub(super) fn of_environment() -> Manager {
        Manager::at(
            std::env::var_os("NOTIFY_SOCKET"),
            std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok()),
        )
    }

    fn at(path: Option<OsString>, watchdog_us: Option<u64>) -> Manager {
        let address = path.and_then(|path| match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            _ => SocketAddr::from_pathname(&path).ok(),
        });
        let socket = UnixDatagram::unbound().ok().zip(address);
        let watchdog = watchdog_us.filter(|_| socket.is_some()).map(Duration::from_micros);
        // It restarts a service that is silent for the whole time.
        Manager { socket, watchdog: watchdog.map(|within| within / 2) }
    }

    /// Says `state`, for example `READY=1`.
    pub(super) fn notify(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _unheard = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_hears_what_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let hears = UnixDatagram::bind(&path).unwrap();
        let manager = Manager::at(Some(path.into()), Some(3_000_000));
        assert_eq!(manager.watchdog, Some(Duration::from_millis(1_500)));
        manager.notify("READY=1\nSTATUS=waits");
        let mut heard = [0; 64];
        let length = hears.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1\nSTATUS=waits");
        Manager::at(None, Some(1)).notify("READY=1");
        assert_eq!(Manager::at(None, Some(1)).watchdog, None);
    }
}
