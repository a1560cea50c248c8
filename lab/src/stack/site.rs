//! A web site that does not belong to lockwatch: a few HTML pages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::http;
use super::port::free_address;

/// A running site; closed when dropped.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

/// The pages by path.
type Pages = Arc<BTreeMap<String, String>>;

impl Site {
    /// Finds a free address, for a site whose address must be known before it is opened.
    ///
    /// # Errors
    /// When there is none.
    pub fn address() -> anyhow::Result<SocketAddr> {
        free_address()
    }

    /// Opens the site at an address with these pages.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn open(
        address: SocketAddr,
        pages: impl IntoIterator<Item = (&'static str, String)>,
    ) -> anyhow::Result<Site> {
        let pages: Pages =
            Arc::new(pages.into_iter().map(|(path, page)| (path.to_owned(), page)).collect());
        let listener = TcpListener::bind(address).await.context("cannot listen")?;
        let serving = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                open.spawn(serve(stream, Arc::clone(&pages)));
            }
        });
        Ok(Site { address, serving })
    }

    /// The URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, pages: Pages) -> anyhow::Result<()> {
    while let Some(request) = http::read_request(&mut stream).await? {
        let (status, page) = match pages.get(&request.path) {
            Some(page) => ("200 OK", page.as_str()),
            None => ("404 Not Found", ""),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
             \r\n",
            page.len()
        );
        stream.write_all((head + page).as_bytes()).await?;
    }
    Ok(())
}
