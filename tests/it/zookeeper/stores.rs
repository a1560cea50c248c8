//! A Redis and an ensemble in one configuration.

use std::time::Duration;

use super::{LONG_MS, problems};
use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;
use crate::support::zookeeper::{Clients, Ensemble, Setup};

#[test]
fn each_store_that_dies_is_one_problem_of_its_own() {
    let test = "zookeeper::stores::each_store_that_dies_is_one_problem_of_its_own";
    let Some(mut ensemble) = Ensemble::start(test, Setup::of(1)) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &ensemble) else { return };
    let Some(mut redis) = RedisServer::start(test) else { return };
    kazoo.session("one", LONG_MS);
    kazoo.run_command("take one first lock /elected web-1");
    kazoo.event("held", "first");
    assert_eq!(redis.cli(&["set", "nightly", "web-1"]), "OK");
    let agent = Agent::start(&format!(
        "redis:\n  main: {{url: \"redis://{}\", interval: 500ms, timeout: 2s}}\n{}tasks:\n  - {{name: nightly, redis: \
         main, lock: {{key: nightly, library: string}}, wanted: always, settle: 500ms, blind_after: 3s}}\n  - {{name: \
         elected, zookeeper: zk, lock: {{path: /elected, library: kazoo}}, wanted: always, \
         settle: 500ms, blind_after: 3s}}\n",
        redis.address(),
        ensemble.config(", interval: 500ms, timeout: 2s")
    ));
    let is_well = |page: &Exposition| {
        ["nightly", "elected"].iter().all(|task| page.verdict(task) == "running")
    };
    agent.until(PATIENCE, "all is well", is_well);

    ensemble.kill(0);
    agent.until(PATIENCE, "the ensemble is away", |page| {
        problems(page, "store", "zk") == ["unreachable"]
    });
    agent.throughout(Duration::from_secs(2), "only the ensemble is away", |view| {
        problems(&view.page, "store", "main").is_empty()
            && problems(&view.page, "store", "zk") == ["unreachable"]
            && view.verdict("nightly") == "running"
            && !problems(&view.page, "task", "elected").contains(&"down".to_owned())
    });
    ensemble.start_again(0);
    agent.until(PATIENCE, "all is well", is_well);

    redis.kill();
    agent.until(PATIENCE, "the Redis is away", |page| {
        problems(page, "store", "main") == ["unreachable"]
    });
    agent.throughout(Duration::from_secs(2), "only the Redis is away", |view| {
        problems(&view.page, "store", "zk").is_empty() && view.verdict("elected") == "running"
    });
}
