//! Ports that stay ours over a restart.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::bail;

/// Below the range from which systems give ports to outgoing connections: those could take the port
/// of a part that is down for a while.
const PORTS: Range<u16> = 15_000..32_000;
/// How many ports are tried.
const TRIES: usize = 200;

static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// An address of 127.0.0.1 on which nobody listens and that this process gave to nobody else.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, fastrand::u16(PORTS)));
        if TcpListener::bind(address).is_ok() && given.insert(address.port()) {
            return Ok(address);
        }
    }
    bail!("found no free port in {PORTS:?}")
}
