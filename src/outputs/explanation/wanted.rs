//! Which users want a task, in a sentence.

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::SwitchView;
use lockwatch_judge::spec::WantedSource;
use lockwatch_judge::verdict::Wanted;

use super::seen::Seen;
use crate::outputs::cause::message;
use crate::outputs::reason::is_counted;
use crate::text::identity::{list, user_name};

/// Maximum number of users or holders that are named.
pub(super) const NAMED_MAX: usize = 12;

/// Which users want the task, or why that is not known.
pub(super) fn wanted_line(seen: Seen<'_>) -> String {
    let view = seen.view;
    let users = |on: bool| {
        let switches = if is_counted(view) { None } else { view.wanting.switches.as_deref() };
        let users: Vec<&SwitchView> =
            switches.unwrap_or_default().iter().filter(|switch| switch.on == Some(on)).collect();
        list(users.iter().map(|switch| user_name(&view.spec, &switch.user)), NAMED_MAX)
    };
    let source = view.spec.wanted.as_ref().map(|wanted| &wanted.source);
    match (view.wanted, source) {
        (Wanted::Yes, _) if !view.wanting.lost_users.is_empty() => {
            let lost = list(
                view.wanting.lost_users.iter().map(|user| user_name(&view.spec, user)),
                NAMED_MAX,
            );
            format!(
                "Wanted: the switches of {lost} were on when the store lost them, and stay in force \
                 until one is written."
            )
        }
        (Wanted::Yes, Some(WantedSource::Always)) => {
            "Wanted at all times (`wanted: always`).".to_owned()
        }
        (Wanted::Yes, _) => match (users(true), view.wanting.users) {
            (named, _) if !named.is_empty() => format!("Wanted by {named}."),
            (_, Some(1)) => "Wanted by 1 user.".to_owned(),
            (_, Some(count)) => format!("Wanted by {count} users."),
            (_, None) if view.switches_unknown.is_none() => {
                "Wanted: there are too many switches to read them all, and some are on.".to_owned()
            }
            (_, None) => "Wanted, as far as was last known.".to_owned(),
        },
        (Wanted::No, Some(WantedSource::Never)) => {
            "Wanted at no time (`wanted: never`).".to_owned()
        }
        (Wanted::No, _) => match (users(false), &view.wanting.switches) {
            (named, _) if !named.is_empty() => {
                format!("Wanted by nobody: the switches of {named} are off.")
            }
            (_, Some(switches)) if switches.is_empty() => {
                "Wanted by nobody: there is no switch.".to_owned()
            }
            _ => "Wanted by nobody.".to_owned(),
        },
        (Wanted::Unset, _) => {
            "No switches are configured, so it is never judged down or unwanted.".to_owned()
        }
        (Wanted::Unknown, _) => match view.switches_unknown {
            Some(why) => unknown_line("Whether users want it", Some(why), view.words(why)),
            None => {
                let switches = view.wanting.switches.as_deref().unwrap_or_default();
                let odd: Vec<&SwitchView> =
                    switches.iter().filter(|switch| switch.on.is_none()).collect();
                match list(odd.iter().map(|switch| user_name(&view.spec, &switch.user)), NAMED_MAX)
                {
                    odd if odd.is_empty() => "Whether users want it was not read yet.".to_owned(),
                    odd => format!("No switch is on, and those of {odd} say neither on nor off."),
                }
            }
        },
    }
}

/// Why something is not known, and what to do about it.
pub(super) fn unknown_line(what: &str, why: Option<Unknown>, said: Option<&str>) -> String {
    match why {
        Some(why) => {
            format!("{what} is unknown ({}). {}", why.name(), message(why, said))
        }
        None => format!("{what} is not known."),
    }
}
