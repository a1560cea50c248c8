# What pint must not say about alerts/lockwatch.rules.yml, each with the reason. Everything else it checks.

rule {
  match {
    name = "LockwatchWatchdog"
  }
  # Always firing is what it is for.
  disable = ["alerts/comparison"]
}

rule {
  match {
    name = "LockwatchDown"
  }
  # Only one branch of its `or` comes from absent_over_time(); the other one has the label `job`, and the text does without it.
  disable = ["alerts/template"]
}

rule {
  match {
    name = "LockwatchAgentsDisagree"
  }
  # Both sides of the difference are the same series: an agent that was not scraped yet can only make it smaller.
  disable = ["promql/fragile"]
}

rule {
  match {
    name = "instance:up:lockwatch"
  }
  # How users call the job is their affair, as long as `lockwatch` is in it.
  disable = ["promql/regexp"]
}

rule {
  match {
    name = "task:lockwatch_task_switch_key_seen:ever|instance_task:lockwatch_(lock_held|task_wanted):avg5m"
  }
  # They take a task's labels from another group. Those change with the configuration only: one evaluation late does not matter.
  disable = ["rule/dependency"]
}

rule {
  match {
    name = "task:lockwatch_task_splits:event|task:lockwatch_lock_lost:event"
  }
  # What was counted before a cut is recorded in another group, which has no room in this one. They look at a quarter of an hour of it:
  # one evaluation late does not matter.
  disable = ["rule/dependency"]
}
