//! What a rule of the verdict is: one value that holds everything about it. Judging, the trace and
//! every sentence derive from it.

use alloc::string::String;
use core::fmt;

use super::fact::{GuardFact, LockFact, RunFact};
use super::wanted::Wanted;
use crate::limit::Limit;

named! {
    /// The verdict of a task, worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verdict {
        /// Positive evidence of more than one holder.
        Split = "split",
        /// Wanted, no hold has lasted for `settle`, and the gap is longer than `grace`; or a run is
        /// overdue.
        Down = "down",
        /// Held, but its progress has not moved for longer than `stale_after`; or a run lasts for
        /// longer than `max`.
        Stalled = "stalled",
        /// Held though nobody wants it, for longer than `wind_down`.
        Unwanted = "unwanted",
        /// No trustworthy reading for longer than `blind_after`, or none yet.
        Unknown = "unknown",
        /// Wanted and free within `grace`; or no run was seen yet, and none is overdue.
        Pending = "pending",
        /// Held by one holder, with no evidence of a problem.
        Running = "running",
        /// Free and not wanted; or between two runs.
        Stopped = "stopped",
    }
}

/// A condition of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// There is positive evidence of more than one holder.
    Split,
    /// Neither what guards the task nor, where that decides, the wish of the users is known.
    Unjudgeable,
    /// There is a previous verdict.
    JudgedBefore,
    /// What guards the task is in one of these states.
    Is(&'static [GuardFact]),
    /// This is known of its runs.
    Run(RunFact),
    /// The users want it like this.
    Wanted(&'static [Wanted]),
    /// What this limit limits has lasted for longer.
    Over(Limit),
    /// It has not.
    Within(Limit),
    /// The gap is over `grace`, and was published as `down` while the lock was free.
    PublishedDown,
}

/// A rule. The first rule of a task's kind whose terms all hold gives the verdict.
#[derive(PartialEq, Eq)]
pub struct Rule {
    /// Its name, in the API and in explanations.
    pub name: &'static str,
    /// The verdict that it gives; `None`: the previous one stays.
    pub verdict: Option<Verdict>,
    /// Its conditions.
    pub when: &'static [Term],
    /// Why, in a sentence. Words in braces stand for what outputs know better: names of limits for
    /// those with their values, and the words of [`Rule::WORDS`].
    pub sentence: &'static str,
}

impl Rule {
    /// More than one holder: worse than anything else.
    pub const SPLIT_EVIDENCE: Rule = Rule {
        name: "split_evidence",
        verdict: Some(Verdict::Split),
        when: &[Term::Split],
        sentence: "{split}",
    };

    /// The lock could not be read for too long.
    pub const LOCK_BLIND: Rule = Rule {
        name: "lock_blind",
        verdict: Some(Verdict::Unknown),
        when: &[Term::Is(&[GuardFact::Lock(LockFact::Unknown)]), Term::Over(Limit::BlindAfter)],
        sentence: "The lock could not be read for longer than {blind_after}.",
    };

    /// Nothing can be judged at present.
    pub const KEEP_PREVIOUS: Rule = Rule {
        name: "keep_previous",
        verdict: None,
        when: &[Term::Unjudgeable, Term::Within(Limit::BlindAfter), Term::JudgedBefore],
        sentence: "It cannot be judged at the moment, so the previous verdict stays.",
    };

    /// Nothing can be judged, and never could.
    pub const NOTHING_YET: Rule = Rule {
        name: "nothing_yet",
        verdict: Some(Verdict::Unknown),
        when: &[Term::Unjudgeable],
        sentence: "There is no confirmed reading yet.",
    };

    /// What the words of sentences say where nothing is known of a task.
    pub const WORDS: &[(&str, &str)] = &[
        ("split", "More than one holder: there is positive evidence."),
        ("wants", "Users want the task"),
        ("holders", "Somebody"),
        ("still", "the progress has not moved"),
        ("turn", "It is somebody's turn"),
        ("executes", ", nobody executes it"),
    ];

    /// The rule in a sentence, of any task.
    pub fn sentence(&self) -> String {
        self.say(|_| None)
    }

    /// The same, with what `know` knows of a word.
    pub fn say(&self, know: impl Fn(&str) -> Option<String>) -> String {
        let mut said = String::new();
        for (position, part) in self.sentence.split(['{', '}']).enumerate() {
            let plain = || Rule::WORDS.iter().find(|(word, _)| *word == part).map(|(_, it)| *it);
            match (position % 2 == 1).then(|| know(part)) {
                Some(Some(known)) => said.push_str(&known),
                Some(None) => said.push_str(plain().unwrap_or(part)),
                None => said.push_str(part),
            }
        }
        said
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}
