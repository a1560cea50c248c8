//! Ordinary handovers.

use super::{LOCK, Scene, TASK, check_calm_but_for_gaps, one_task};
use crate::support::PATIENCE;
use crate::support::truth::rule;

/// By unlock, while the other client waits in `lock()`: milliseconds pass between the holds.
#[test]
fn a_thousand_handovers_are_neither_a_split_nor_down() {
    let _rule = rule("12 two holders");
    const HANDOVERS: f64 = 1_000.0;
    const GRACE_SECONDS: f64 = 1.0;
    let test = "live::take_over: a thousand handovers";
    let thresholds = format!("grace: {GRACE_SECONDS}s, settle: 1s");
    let Some(mut scene) = Scene::open(test, "100ms", &one_task(&thresholds)) else { return };
    let clients = [scene.connect("c1", 3_000), scene.connect("c2", 3_000)];
    scene.redisson.run(&format!("lock c1 t1 {LOCK}"));
    scene.switch("anna", "1");
    scene.agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    let watch = scene.agent.watch();
    let answer = scene.redisson.run(&format!("handovers c1 t1 c2 t1 {LOCK} n={HANDOVERS}"));
    assert_eq!(answer["handovers"].as_f64(), Some(HANDOVERS));
    eprintln!("{HANDOVERS} handovers in {} ms", answer["took_ms"]);
    let pages = watch.stop();

    let last = pages.last().unwrap();
    let seen = last.of(TASK, "lock_acquisitions_total").unwrap();
    // A fast machine needs half a second for all of them.
    assert!(seen >= 3.0, "some of them were seen: {seen}");
    assert_eq!(
        last.ends(TASK, "expired") + last.ends(TASK, "lost") + last.ends(TASK, "unknown"),
        0.0
    );
    for kind in ["holders", "claims", "overlap"] {
        assert_eq!(
            last.get("lockwatch_task_splits_by_kind_total", &[("task", TASK), ("kind", kind)]),
            Some(0.0)
        );
    }
    // On a busy machine a reading may fall between two holders.
    check_calm_but_for_gaps(&scene.agent, &pages, TASK, GRACE_SECONDS);
    for page in &pages {
        let holder = page.label(TASK, "lock_holder", "holder");
        assert!(holder.is_none_or(|holder| clients.contains(&holder)), "{}", page.text());
        assert!(page.of(TASK, "lock_holders") <= Some(1.0), "{}", page.text());
    }
}
