//! Cluster: keys move with their deadlines, a replica takes over.
use crate::support::cluster::Cluster;
use crate::support::network::Options;

#[test]
fn a_moved_slot_takes_its_keys_and_their_deadlines_along() {
    let test = "topologies::cluster::a_moved_slot_takes_its_keys_and_their_deadlines_along";
    let Some(cluster) = Cluster::start(test, 0, &Options::default()) else { return };
    let (key, other) = ("{outbound}:lock", "{outbound}:users");
    cluster.cli(key, &["set", key, "one", "px", "60000"]);
}
