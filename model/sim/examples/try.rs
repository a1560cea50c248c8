use lockwatch_sim::*;
use lockwatch_model::spec::RedisKind;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let kind = match args[1].as_str() { "s" => Shape::Kind(RedisKind::Standalone), "r" => Shape::Kind(RedisKind::Replicated), "q" => Shape::Kind(RedisKind::Sentinel), _ => Shape::Any };
    let (from, count, hours): (u64, u64, u64) = (args[2].parse().unwrap(), args[3].parse().unwrap(), args[4].parse().unwrap());
    let mini = args.get(5).is_some();
    let began = std::time::Instant::now();
    let (mut coverage, mut th, mut failed) = (Coverage::default(), 0.0, 0);
    for seed in from..from + count {
        let plan = Plan::new(seed, hours, kind);
        let outcome = run(&plan, false);
        coverage.add(&outcome.coverage);
        th += outcome.task_hours;
        if let Some(v) = outcome.violations.first() {
            failed += 1;
            println!("seed {seed} {:?} at {} agent {} [{}] {}", plan.kind(), v.at_ms, v.agent, v.check, v.what);
            if std::env::var("SPEC").is_ok() { let name = v.what.split(":").next().unwrap(); for (s, t) in plan.spec.tasks.iter().zip(0..) { if &*s.name == name { println!("  {t} {s:?}"); } } }
            if mini {
                let (kept, v) = minimise(&plan, v);
                println!("  -> at {} {}", v.at_ms, v.what);
                for k in kept { println!("     {k}: {:?}", plan.steps[k]); }
            }
        }
    }
    let s = began.elapsed().as_secs_f64();
    println!("{}missing {:?}\n{failed} failed of {count}; {th:.0} task-hours in {s:.1} s = {:.0} per hour", coverage.table(), coverage.missing(), th / s * 3600.0);
}
