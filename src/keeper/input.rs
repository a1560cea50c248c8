//! The standard input of a guard, on its way to the script: through the sockets between guard,
//! keeper and starter, so that the script reads the very same file, pipe or terminal.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::fs::{FileType, fstat};
use rustix::io::ioctl_fionread;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Goes with the descriptor: one without any byte is not sent.
const MARK: u8 = b'i';

/// Passes an input on. Nothing may have been sent before.
///
/// # Errors
/// The other side is gone, or the system refuses it.
pub fn send(to: &UnixStream, input: impl AsFd) -> std::io::Result<()> {
    let (inputs, mut space) = ([input.as_fd()], [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))]);
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&inputs));
    sendmsg(to, &[IoSlice::new(&[MARK])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Takes what [`send`] has sent. The socket must block.
///
/// # Errors
/// The other side is gone, or sent something else.
pub fn receive(from: &UnixStream) -> std::io::Result<OwnedFd> {
    let (mut mark, mut space) = ([0], [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))]);
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(from, &mut [IoSliceMut::new(&mut mark)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut inputs) => inputs.next(),
        _ => None,
    });
    passed.ok_or_else(|| Error::from(ErrorKind::InvalidData))
}

/// Whether something can be read from the standard input of this process, which is a file, a pipe
/// or a socket. (A terminal always may have something, and no script wants it.)
pub fn is_waiting() -> bool {
    let input = std::io::stdin();
    let kind = fstat(&input).map(|it| FileType::from_raw_mode(it.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
        && ioctl_fionread(&input).is_ok_and(|bytes| bytes > 0)
}
