//! Scripts that end at once, or that leave others behind.

use super::*;

const STARTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

fn shell(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(str::to_owned).to_vec()
}

#[test]
fn a_script_that_ends_at_once_is_started_no_more_often_than_configured() {
    let Some(server) = RedisServer::start("guard::ends: at once") else { return };
    for code in [0, 1] {
        let (scene, file) = (Scene::new(), format!("lockwatch-{code}.yml"));
        let (ms, redis) = (PAUSE.as_millis(), server.address());
        let text = format!(
            "redis: {{main: {{url: \"redis://{redis}\"}}}}\ntasks:\n- name: outbound\n  \
             lock: {{key: \"lock-{code}\"}}\n  guard: {{lease: 2s, stop_after: 500ms, \
             backoff: {ms}ms, backoff_max: {ms}ms}}\n"
        );
        fs::write(scene.path(&file), text).unwrap();
        let file = scene.path(&file);
        let script = shell(&format!("echo x >> $LOG; exit {code}"));
        let began = Instant::now();
        let guard = scene.start(&["--config.file", file.to_str().unwrap(), "outbound"], &script);
        until("it was started often", || {
            let starts = fs::read_to_string(scene.path("log")).unwrap().lines().count();
            (starts >= STARTS as usize).then_some(())
        });
        assert!(began.elapsed() >= PAUSE * (STARTS - 1), "{:?}", began.elapsed());
        let token = format!("redisson_lock_token:{{lock-{code}}}");
        assert_eq!(server.cli(&["get", &token]), "1", "it keeps the lock: {}", guard.said());
    }
}

#[test]
fn a_script_that_goes_to_the_background_is_not_left_there() {
    let Some(server) = RedisServer::start("guard::ends: background") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    // As daemons do it: two forks and a session of its own.
    let text = "(setsid sh -c '(touch $LOG.runs; exec sleep 600) & exit 0' &)
                while ! [ -e $LOG.runs ]; do sleep 0.01; done; exit 0";
    let mut guard = scene.start(&["--redis", &redis, "--lock", LOCK], &shell(text));
    assert_eq!((guard.code(), guard.scripts()), (Some(0), vec![]));
    assert_eq!(server.cli(&["exists", LOCK]), "0");
}
