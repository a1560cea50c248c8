# What pint must not say about the rules in alerts, each with the reason. Everything else it checks.

rule {
  match {
    name = "LockwatchWatchdog"
  }
  # Always firing is what it is for.
  disable = ["alerts/comparison"]
}

rule {
  match {
    kind = "alerting"
  }
  ignore {
    # What no agent says of a task or a store.
    name = "Lockwatch(Down|Agent.*|LabelsCollide|ConfigReloadFailed|Watchdog)"
  }
  # The recording rule that they read has series only for what is wrong.
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
    name = "LockwatchLabelsCollide"
  }
  # Some branches of its `or` have the label `job`, one has `store`, and the text does without either. The series that it reads there have
  # what is wrong, or nothing.
  disable = ["alerts/template", "alerts/comparison"]
}

rule {
  match {
    name = "instance:lockwatch_up"
  }
  # How users call the job is their affair, as long as `lockwatch` is in it.
  disable = ["promql/regexp"]
}

rule {
  match {
    name = "agent:lockwatch_problem_seconds:kept|task:lockwatch_task_wanting_users:last|LockwatchAgentsDisagree|LockwatchLabelsCollide"
  }
  # The slow group has what needs a series of every task, twice a minute, and it takes from the pages, and they from it, what lasts for
  # minutes: half a minute late does not matter.
  disable = ["rule/dependency"]
}

rule {
  match {
    name = "task:lockwatch_task_run_.*:.*|LockwatchTaskOverdue"
  }
  # A period lasts for minutes at least: which agents answer may be an evaluation late. The pages would have more than 20 rules.
  disable = ["rule/dependency"]
}
