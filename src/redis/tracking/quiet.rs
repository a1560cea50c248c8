//! A TCP stream that can be left alone for a while: what comes then wakes nobody. A stream that
//! tokio knows wakes the thread that waits for all of them with each packet, whether or not anybody
//! wants to read it now.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The stream. It never blocks.
#[derive(Debug)]
pub struct QuietStream(State);

#[derive(Debug)]
enum State {
    Watched(TcpStream),
    LeftAlone(std::net::TcpStream),
    /// It could not be handed over.
    Lost,
}

impl QuietStream {
    pub(super) fn new(stream: TcpStream) -> QuietStream {
        QuietStream(State::Watched(stream))
    }

    /// Wakes nobody from now on, until somebody waits for it again.
    pub(super) fn leave_alone(&mut self) -> io::Result<()> {
        self.0 = match std::mem::replace(&mut self.0, State::Lost) {
            State::Watched(stream) => State::LeftAlone(stream.into_std()?),
            other => other,
        };
        Ok(())
    }

    fn watch(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.0 = match std::mem::replace(&mut self.0, State::Lost) {
            State::LeftAlone(stream) => State::Watched(TcpStream::from_std(stream)?),
            other => other,
        };
        match &mut self.0 {
            State::Watched(stream) => Ok(Pin::new(stream)),
            State::LeftAlone(_) | State::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for QuietStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let State::LeftAlone(stream) = &mut self.0 {
            // What has come meanwhile is read without telling tokio of the stream.
            match stream.read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(bytes) => {
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
            }
        }
        self.watch()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for QuietStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.watch()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watch()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watch()?.poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::task::Waker;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn pair() -> (QuietStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (QuietStream::new(near), listener.accept().unwrap().0)
    }

    async fn read(stream: &mut QuietStream) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        tokio::time::timeout(Duration::from_secs(10), stream.read_buf(&mut bytes))
            .await
            .unwrap()
            .unwrap();
        bytes
    }

    #[tokio::test]
    async fn what_came_meanwhile_is_read_without_watching() {
        let (mut near, mut far) = pair().await;
        for word in [b"one".as_slice(), b"two"] {
            near.leave_alone().unwrap();
            io::Write::write_all(&mut far, word).unwrap();
            // On loopback it has come when the write is over.
            assert_eq!(read(&mut near).await, word);
            assert!(matches!(near.0, State::LeftAlone(_)));
        }
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_again() {
        let (mut near, mut far) = pair().await;
        near.leave_alone().unwrap();
        let mut bytes = [0; 8];
        let waits = Pin::new(&mut near)
            .poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut bytes));
        assert!(waits.is_pending() && matches!(near.0, State::Watched(_)));
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            io::Write::write_all(&mut far, b"late").unwrap();
            far
        });
        assert_eq!(read(&mut near).await, b"late");
        drop(late.join().unwrap());
        near.leave_alone().unwrap();
        assert_eq!(read(&mut near).await, b"", "it was closed");
    }

    #[tokio::test]
    async fn it_is_written_to_though_it_is_left_alone() {
        let (mut near, mut far) = pair().await;
        near.leave_alone().unwrap();
        near.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        far.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"ping");
    }
}
