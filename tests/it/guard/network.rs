//! The network between a guard and Redis fails while it holds the lock, at any instant.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::support::proxy::{Fault, Proxy};

const ROUNDS: usize = 3;
const LEASE_MS: u64 = 2_000;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The first guard is cut off, the second one is not. In each round the second one takes over; then
/// the network is healed, the second one ends, and the first one takes over again.
fn is_survived(test: &str, cut: impl Fn(&Proxy), heal: impl Fn(&Proxy)) {
    let Some(server) = RedisServer::start(test) else { return };
    let (scene, proxy) = (Scene::new(), Proxy::start(server.port));
    let through = format!("redis://127.0.0.1:{}", proxy.port);
    let first = ["--redis", &through, "--lock", LOCK, "--lease", "2s", "--stop-after", "500ms"];
    let first = scene.start(&[&first[..], &["--restart", "always"]].concat(), &scene.script());
    let mut token = scene.runs_above(0);
    for _ in 0..ROUNDS {
        let mut second = scene.guard(&server, &[]);
        // At any instant of a hold.
        thread::sleep(Duration::from_millis(fastrand::u64(..LEASE_MS / 2)));
        cut(&proxy);
        let since = Instant::now();
        until("the script is dead", || first.scripts().is_empty().then_some(()));
        assert!(since.elapsed() < Duration::from_millis(LEASE_MS), "{:?}", since.elapsed());
        token = scene.runs_above(token);
        assert!(first.scripts().is_empty(), "the second one runs it");
        heal(&proxy);
        second.signal("TERM");
        second.ended();
        token = scene.runs_above(token);
        assert!(!first.scripts().is_empty(), "the first one runs it again");
    }
    assert_eq!(scene.assert_never_both(), 1 + 2 * ROUNDS);
}

#[test]
fn a_silent_cut_costs_the_script_in_time() {
    let heal = |proxy: &Proxy| proxy.let_go(HERE);
    is_survived("guard::network: silent", |proxy| proxy.hold(HERE), heal);
}

/// What the guard asks for is still carried out, but it does not hear of that.
#[test]
fn a_cut_of_the_replies_costs_the_script_in_time() {
    let (cut, heal) = (
        |proxy: &Proxy| proxy.set(Fault::SwallowReplies),
        |proxy: &Proxy| {
            proxy.set(Fault::None);
            // What waits for a reply on these connections waits in vain.
            proxy.cut();
        },
    );
    is_survived("guard::network: no replies", cut, heal);
}

#[test]
fn a_loud_cut_costs_the_script_in_time() {
    let cut = |proxy: &Proxy| {
        proxy.set(Fault::Truncate(0));
        proxy.cut();
    };
    is_survived("guard::network: loud", cut, |proxy| proxy.set(Fault::None));
}
