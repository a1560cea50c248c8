//! docs/api.md: its commands work with the real program.

use crate::support::PATIENCE;
use std::process::Command;

use crate::runbooks::pages::{Document, commands, sh_blocks};
use crate::support::agent::Agent;
use crate::support::redis::RedisServer;
use crate::support::skip;

const TASK: &str = "outbound";

#[test]
fn every_command_works() {
    let test = "api::guide::every_command_works";
    if !skip::has(test, &["curl", "jq"]) {
        return;
    }
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["HSET", "outbound:lock", "first:1", "1"]);
    server.cli(&["PEXPIRE", "outbound:lock", "600000"]);
    let agent = Agent::start(&format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 100ms}}}}\nlabels: [team]\n\
         tasks:\n  - {{name: {TASK}, lock: {{key: \"outbound:lock\"}}}}\n",
        server.address()
    ));
    agent.until_view(PATIENCE, "held", |view| view.held(TASK) == Some(1.0));
    let page = Document::read("docs/api.md");
    let variables = sh_blocks(page.section("Before you start"))[0];
    assert_eq!(variables, format!("LOCKWATCH=http://127.0.0.1:10379\nTASK={TASK}"));
    let variables = variables.replace("10379", &agent.port.to_string());
    let commands = commands(&page.text);
    assert!(commands.len() > 8);
    for command in commands.iter().filter(|command| command.text.contains("curl")) {
        let script = format!("set -eu\n{variables}\n{}", command.text);
        let output = Command::new("timeout").args(["30", "sh", "-c", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let nothing = said.trim().is_empty() || said.lines().any(|line| line == "null");
        assert!(output.status.success() && !nothing, "{}: {output:?}", command.text);
        if command.text.contains("If-None-Match") {
            assert_eq!(said, "304\n");
        }
    }
}
