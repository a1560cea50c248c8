//! The routes of the HTML pages and of the badge, and what their queries ask for.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::{Request, StatusCode};
use lockwatch_judge::verdict::Verdict;

use super::etag::tagged_content;
use super::origin::LoggedIn;
use super::parameters::lenient;
use super::reply::{Reply, as_page, pieces, reply, stream, text, too_many_streams, with_header};
use super::site::Site;
use crate::outputs::badge::{self, Says};
use crate::outputs::history::About;
use crate::outputs::page::query::{Group, ListQuery, TaskQuery, WINDOW_MS, WINDOWS};
use crate::outputs::page::{self, Around};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

impl Site {
    pub(super) async fn landing(&self, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.everything().await;
        self.feed.expect(Arc::clone(&published));
        let status =
            if stopped.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        let query = list_query(request.uri().query());
        let page = page::of_all(published, &query, self.around(stopped.as_deref()));
        as_page(pieces(status, HTML, page), &[])
    }

    pub(super) fn style(&self, request: &Request<Incoming>) -> Reply {
        tagged_content(request.headers(), StatusCode::OK, CSS, page::STYLE)
    }

    pub(super) fn icon(&self, request: &Request<Incoming>) -> Reply {
        tagged_content(request.headers(), StatusCode::OK, SVG, page::ICON)
    }

    pub(super) fn script(&self, request: &Request<Incoming>) -> Reply {
        tagged_content(request.headers(), StatusCode::OK, JAVASCRIPT, page::SCRIPT)
    }

    pub(super) async fn task_page(&self, name: &str, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.look_at(name).await;
        self.feed.expect(Arc::clone(&published));
        let view = published.snapshot.tasks.find(name);
        let status = match (view, &stopped) {
            (None, _) => StatusCode::NOT_FOUND,
            (Some(_), Some(_)) => StatusCode::SERVICE_UNAVAILABLE,
            (Some(_), None) => StatusCode::OK,
        };
        let excerpt = view.map(|view| {
            let about = [About::Task(name.into()), About::Redis(Arc::clone(&view.store))].into();
            self.context.history.excerpt(&about, None, page::EVENTS_MAX, |_| true)
        });
        let events = excerpt.map(|excerpt| excerpt.events).unwrap_or_default();
        let query = task_query(request.uri().query());
        let user = request.extensions().get::<LoggedIn>().map(|LoggedIn(user)| user.as_str());
        let switcher = user.filter(|_| self.is_switchable(name));
        let around = Around { switcher, ..self.around(stopped.as_deref()) };
        let body = page::of_task(&published, name, &events, query, around);
        as_page(reply(status, HTML, body), &self.context.frame_ancestors)
    }

    pub(super) async fn badge(&self, name: &str, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.look_at(name).await;
        let view = published.snapshot.tasks.find(name);
        let (status, says) = match (stopped, view) {
            (Some(_), _) => (StatusCode::SERVICE_UNAVAILABLE, Says::Stopped),
            (None, Some(view)) => (StatusCode::OK, Says::of(&published, view)),
            (None, None) => (StatusCode::NOT_FOUND, Says::Missing),
        };
        let reply = tagged_content(request.headers(), status, SVG, badge::picture(name, says));
        // Badges are meant to be embedded, so any site may load them.
        with_header(reply, HeaderName::from_static("cross-origin-resource-policy"), "cross-origin")
    }

    pub(super) fn runbooks(&self, request: &Request<Incoming>) -> Reply {
        let page = tagged_content(request.headers(), StatusCode::OK, HTML, page::runbooks());
        as_page(page, &[])
    }

    pub(super) fn runbook(&self, name: &str, request: &Request<Incoming>) -> Reply {
        match page::runbook(name) {
            Some(page) => {
                as_page(tagged_content(request.headers(), StatusCode::OK, HTML, page), &[])
            }
            None => text(StatusCode::NOT_FOUND, "There is no such runbook; /runbooks lists them."),
        }
    }

    /// What changes on the pages, for their script.
    pub(super) fn live(&self, request: &Request<Incoming>) -> Reply {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok();
        let joined = permit.and_then(|permit| {
            Some((self.feed.join(request.uri().query(), request.headers())?, permit))
        });
        match joined {
            Some((frames, permit)) => stream(frames, permit),
            None => too_many_streams(),
        }
    }

    fn around<'a>(&'a self, stopped: Option<&'a str>) -> Around<'a> {
        Around { boot: self.context.history.boot(), stopped, switcher: None }
    }
}

/// The query of the list. Unknown or empty parameters are ignored.
fn list_query(query: Option<&str>) -> ListQuery {
    let mut asked = ListQuery::default();
    for (name, value) in lenient(query).into_iter().filter(|(_, value)| !value.is_empty()) {
        match name.as_str() {
            "q" => asked.text = value,
            "verdict" => {
                asked.verdict = Verdict::ALL.into_iter().find(|verdict| verdict.name() == value)
            }
            "redis" => asked.store = Some(value),
            "group" if value == "redis" => asked.group = Group::Store,
            "group" => {
                asked.group = value
                    .strip_prefix("label.")
                    .map(|label| Group::Label(label.to_owned()))
                    .unwrap_or_default();
            }
            _ => asked
                .labels
                .extend(name.strip_prefix("label.").map(|label| (label.to_owned(), value))),
        }
    }
    asked
}

/// The query of a task's page. Unknown parameters are ignored.
fn task_query(query: Option<&str>) -> TaskQuery {
    let mut asked = TaskQuery { window_ms: WINDOW_MS, fragment: false };
    for (name, value) in lenient(query) {
        match name.as_str() {
            "fragment" => asked.fragment = true,
            "window" => asked.window_ms = window(&value).unwrap_or(WINDOW_MS),
            _ => {}
        }
    }
    asked
}

fn window(word: &str) -> Option<u64> {
    WINDOWS.iter().find(|(known, _)| *known == word).map(|(_, ms)| *ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_and_anything_else_asks_for_nothing() {
        assert_eq!(list_query(Some("")), ListQuery::default());
        assert_eq!(list_query(Some("verdict=&redis=&group=&q=&label.team=")), ListQuery::default());
        assert_eq!(list_query(Some("verdict=gone&group=colour&page=7&=&&%")), ListQuery::default());
        let asked = list_query(Some(
            "q=a+b%26%C3%A9&verdict=down&redis=m%zz&label.team=log&group=label.t%65am",
        ));
        let expected = ListQuery {
            text: "a b&é".to_owned(),
            verdict: Some(Verdict::Down),
            store: Some("m%zz".to_owned()),
            labels: vec![("team".to_owned(), "log".to_owned())],
            group: Group::Label("team".to_owned()),
        };
        assert_eq!(asked, expected);
        assert_eq!(list_query(Some("group=redis")).group, Group::Store);
        assert_eq!(list_query(Some("q=%ff%")).text, "\u{fffd}%");
    }
}
