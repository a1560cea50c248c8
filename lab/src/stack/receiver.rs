//! A webhook receiver for Alertmanager's notifications, in place of a pager.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::http;
use super::port::free_address;
use super::prometheus::Labels;

/// What is received below this path is refused with the status that follows.
const REFUSED: &str = "/refused/";

/// A running receiver; it ends when dropped.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Notification>>>,
    serving: JoinHandle<()>,
}

/// One notification, which would make a pager ring once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// When it was received.
    pub received: Instant,
    /// The path of the receiver, which identifies the route.
    pub path: String,
    /// The status of the whole group: firing while any of its alerts is.
    pub status: Status,
    /// The labels by which the group is formed.
    pub group: Labels,
    /// Its alerts.
    pub alerts: Vec<Alert>,
}

/// One alert of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Whether the alert still fires.
    pub status: Status,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Since when it fires, as Prometheus wrote it; this identifies the firing period.
    pub starts_at: String,
}

/// Whether an alert fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The alert fires.
    Firing,
    /// The alert has ended.
    Resolved,
}

impl Receiver {
    /// Starts a receiver.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start() -> anyhow::Result<Receiver> {
        let address = free_address()?;
        let listener =
            TcpListener::bind(address).await.context("cannot listen for notifications")?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let serving = tokio::spawn(serve(listener, Arc::clone(&received)));
        Ok(Receiver { address, received, serving })
    }

    /// The URL for Alertmanager's `webhook_configs`; any path below it is accepted.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// A URL that answers each notification with this status, as a pager that is out of order.
    pub fn url_refusing(&self, status: u16) -> String {
        format!("http://{}{REFUSED}{status}", self.address)
    }

    /// All notifications so far that were accepted, in order.
    pub fn notifications(&self) -> Vec<Notification> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, received: Arc<Mutex<Vec<Notification>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let received = Arc::clone(&received);
        tokio::spawn(async move {
            if let Err(error) = take(stream, &received).await {
                eprintln!("a notification could not be understood: {error:#}");
            }
        });
    }
}

async fn take(mut stream: TcpStream, received: &Mutex<Vec<Notification>>) -> anyhow::Result<()> {
    let Some(request) = http::read_request(&mut stream).await? else { return Ok(()) };
    let at = Instant::now();
    let message: Value = serde_json::from_str(&request.body).context("the body is not JSON")?;
    let refused = request.path.strip_prefix(REFUSED).map(str::to_owned);
    if refused.is_none() {
        let notification = notification(&message, request.path, at)?;
        received.lock().unwrap_or_else(PoisonError::into_inner).push(notification);
    }
    let status = refused.unwrap_or_else(|| "200".to_owned());
    let head = format!("HTTP/1.1 {status} .\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    Ok(())
}

fn notification(message: &Value, path: String, received: Instant) -> anyhow::Result<Notification> {
    let alerts = message["alerts"].as_array().context("no alerts")?;
    Ok(Notification {
        received,
        path,
        status: status(&message["status"])?,
        group: texts(&message["groupLabels"]),
        alerts: alerts.iter().map(alert).collect::<anyhow::Result<_>>()?,
    })
}

fn alert(alert: &Value) -> anyhow::Result<Alert> {
    Ok(Alert {
        status: status(&alert["status"])?,
        labels: texts(&alert["labels"]),
        annotations: texts(&alert["annotations"]),
        starts_at: alert["startsAt"].as_str().context("no startsAt")?.to_owned(),
    })
}

fn status(status: &Value) -> anyhow::Result<Status> {
    match status.as_str() {
        Some("firing") => Ok(Status::Firing),
        Some("resolved") => Ok(Status::Resolved),
        _ => bail!("status {status}"),
    }
}

fn texts(map: &Value) -> Labels {
    let entries = map.as_object().into_iter().flatten();
    entries
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}
