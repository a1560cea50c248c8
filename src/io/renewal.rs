//! Logs in again before a login is too old: some servers end connections whose token has expired,
//! or that logged in hours ago.

use std::future::pending;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Failure;
use lockwatch_watch::redis::reply::Reply;
use tokio::time::sleep;

use super::connection::Wire;
use super::login::{auth, password};
use crate::config::{HostPort, Login};

/// The part of a login's greatest age after which a renewal that failed is tried again.
const AGAIN: u32 = 16;

/// Renews the login of a connection in time, as long as the connection works. A renewal that fails
/// is logged and tried again: the old login is still good.
pub(super) async fn keep_alive(wire: &Wire, login: &Login, to: &HostPort) -> Failure {
    let Some(renew_after) = login.renew_after() else { return pending().await };
    let mut pause = renew_after;
    loop {
        sleep(pause).await;
        pause = match renew(wire, login).await {
            Ok(Ok(())) => renew_after,
            Ok(Err(failure)) => {
                let what = "the login of a connection could not be renewed: it is tried again";
                tracing::warn!(%to, %failure, "{what}");
                login.max_age.unwrap_or(renew_after) / AGAIN
            }
            Err(broken) => return broken,
        };
    }
}

/// Ends when it is time to renew the login of a connection that only listens. Such a connection is made again
/// instead, because what comes on it is announcements, not replies.
pub(super) async fn is_due(login: &Login) -> Failure {
    match login.renew_after() {
        None => pending().await,
        Some(renew_after) => {
            sleep(renew_after).await;
            Failure::new(Unknown::Closed, "closed in time, because its login becomes too old")
        }
    }
}

/// The outer failure is one of the connection, the inner one of the login.
async fn renew(wire: &Wire, login: &Login) -> Result<Result<(), Failure>, Failure> {
    let password = match password(login.password.as_ref()).await {
        Ok(password) => password,
        Err(failure) => return Ok(Err(failure)),
    };
    let Some(command) = auth(login, password.as_ref()) else { return Ok(Ok(())) };
    wire.will_send(password.as_ref());
    let replies = wire.ask(&[command]).await?;
    Ok(match replies.first() {
        Some(Reply::Error(error)) => {
            let said = [error.code.as_slice(), b" ", &error.detail].concat();
            Err(Failure::new(Unknown::Auth, String::from_utf8_lossy(&said)))
        }
        _ => Ok(()),
    })
}
