//! The HTML pages: all tasks, and one task. All markup is rendered here: the script only inserts
//! rendered parts.

mod drawing;
mod facts;
#[cfg(test)]
pub(super) mod fixture;
pub(super) mod html;
mod list;
mod moving;
pub(super) mod query;
pub(super) mod redises;
pub(super) mod row;
mod settings;
mod shell;
mod task;
mod timeline;
mod words;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};

use super::etag::tagged_content;
use super::reply::{Reply, as_page, pieces, reply};
use super::routes::Site;
use crate::output::history::About;
use crate::output::identity::escape;
use query::ListQuery;
use shell::Shell;
use task::TaskQuery;

/// The style sheet.
const STYLE: &str = include_str!("page/style.css");
/// The icon that browsers show beside the title.
const ICON: &str = include_str!("page/icon.svg");
/// Maximum number of events that a timeline is derived from.
const EVENTS_MAX: usize = 1_000;
const HTML: &str = "text/html; charset=utf-8";

impl Site {
    pub(super) async fn landing(&self, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.everything().await;
        self.feed.expect(Arc::clone(&published));
        let status =
            if stopped.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        let query = ListQuery::read(request.uri().query());
        let page = list::pieces(published, &query, self.context.history.boot(), stopped.as_deref());
        as_page(pieces(status, HTML, page), &[])
    }

    pub(super) fn style(&self, request: &Request<Incoming>) -> Reply {
        tagged_content(request.headers(), StatusCode::OK, "text/css; charset=utf-8", STYLE)
    }

    pub(super) fn icon(&self, request: &Request<Incoming>) -> Reply {
        tagged_content(request.headers(), StatusCode::OK, "image/svg+xml", ICON)
    }

    pub(super) async fn task_page(&self, name: &str, request: &Request<Incoming>) -> Reply {
        let (published, stopped) = self.look_at(name).await;
        self.feed.expect(Arc::clone(&published));
        let query = TaskQuery::read(request.uri().query());
        let view = published.snapshot.tasks.find(name);
        let status = match (view, &stopped) {
            (None, _) => StatusCode::NOT_FOUND,
            (Some(_), Some(_)) => StatusCode::SERVICE_UNAVAILABLE,
            (Some(_), None) => StatusCode::OK,
        };
        let main = match view {
            Some(view) => {
                let about =
                    [About::Task(name.into()), About::Redis(Arc::clone(&view.store))].into();
                let excerpt = self.context.history.excerpt(&about, None, EVENTS_MAX, |_| true);
                task::main(&published, view, &excerpt.events, query)
            }
            None => task::missing(name),
        };
        let body = if query.fragment {
            main
        } else {
            let title = format!("{} · lockwatch", escape(name.as_bytes()));
            let (boot, task) = (self.context.history.boot(), Some(name));
            let shell = Shell {
                published: &published,
                boot,
                stopped: stopped.as_deref(),
                task,
                title: &title,
                main: "task",
            };
            [shell.before(), main, shell.after()].concat()
        };
        as_page(reply(status, HTML, body), &self.context.frame_ancestors)
    }
}
