//! Ports that stay reserved while a part restarts.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::bail;

/// Below the range of ephemeral ports: an outgoing connection could take the port of a part that is
/// down.
const PORTS: Range<u16> = 15_000..32_000;
/// Maximum number of ports to try.
const TRIES: usize = 200;

static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A free address of 127.0.0.1 that this process has not used before.
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
