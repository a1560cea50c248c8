//! The script and its keeper, from the guard's side.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lockwatch_judge::time::Mono;
use rustix::process::{Pid, getpid};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::keeper::group::Group;
use crate::keeper::tree::Tree;
use crate::keeper::wire::{Ended, Order, Start};
use crate::keeper::{self, boot, input};

/// How long the keeper may take to kill before the guard kills it as well: it may stand still.
const KEEPER_TAKES: Duration = Duration::from_millis(200);
/// Pause between two looks at processes that are being killed.
const AGAIN: Duration = Duration::from_millis(2);

/// A script that was started, or that is ready to be.
pub(super) struct Script {
    orders: UnixStream,
    keeper: Pid,
    tree: Tree,
    end: Arc<End>,
}

/// What is known of the end of a script.
struct End {
    /// Nothing is left, nor is the keeper. Locked while the guard kills, so that it never kills
    /// what it starts next.
    is_over: Mutex<bool>,
    /// Since when the guard has seen nothing alive but the keeper, in milliseconds.
    dead_since: AtomicU64,
}

/// The end of a script: nothing that came of it is left.
pub(super) type Gone = oneshot::Receiver<Ended>;

impl Script {
    /// Starts a keeper for `command` with this environment, in this group if there is one. The
    /// script itself waits for [`Script::begin`]. `reads`: its standard input is the guard's, and
    /// not empty.
    ///
    /// # Errors
    /// There is no keeper, and so no script.
    pub(super) fn prepare(
        command: &[OsString],
        environment: &[(&str, String)],
        group: Option<&Group>,
        reads: bool,
    ) -> anyhow::Result<(Script, Gone)> {
        let (ours, theirs) = UnixStream::pair().context("cannot connect to a keeper")?;
        if reads {
            input::send(&ours, std::io::stdin()).context("cannot pass the input on")?;
        }
        ours.set_nonblocking(true).context("cannot connect to a keeper")?;
        let group = group.filter(|group| group.create().is_ok()).cloned();
        let path = group.as_ref().map_or(OsStr::new(keeper::NOTHING), Group::path);
        let mut program = Command::new(keeper::PROGRAM);
        let input = if reads { keeper::INPUT } else { keeper::NOTHING };
        program.arg0("lockwatch").arg(keeper::COMMAND).arg(path).arg(input).args(command);
        program.envs(environment.iter().map(|(name, value)| (name, value)));
        program.stdin(OwnedFd::from(theirs));
        let child = program.spawn().context("cannot start a keeper")?;
        // With it goes this side of the keeper's socket, whose end the keeper must see.
        drop(program);
        let keeper = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let keeper = keeper.context("the keeper has ended")?;
        let listens = ours.try_clone().context("cannot listen to the keeper")?;
        let listens = tokio::net::UnixStream::from_std(listens)?;
        let (sender, gone) = oneshot::channel();
        let end =
            Arc::new(End { is_over: Mutex::new(false), dead_since: AtomicU64::new(u64::MAX) });
        let tree = Tree::of(getpid(), group);
        let script = Script { orders: ours, keeper, tree: tree.clone(), end: Arc::clone(&end) };
        tokio::spawn(async move {
            let last = until_gone(child, listens, tree).await;
            *end.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            // A keeper that stood still reports it late, or not at all.
            let at = last.at.min(Mono::at(end.dead_since.load(Ordering::Relaxed)));
            let _guard_ended = sender.send(Ended { at, ..last });
        });
        Ok((script, gone))
    }

    /// Lets it run.
    pub(super) fn begin(&mut self, start: Start) {
        self.order(Order::Start(start));
    }

    /// The keeper may let the script run until then.
    pub(super) fn extend(&mut self, dead_by: Mono) {
        self.order(Order::Extend(dead_by));
    }

    /// Signals the script and its process group.
    pub(super) fn signal(&mut self, signal: i32) {
        self.order(Order::Signal(signal));
    }

    /// Kills all that came of the script: the keeper does it, and so does the guard, because the
    /// keeper may stand still.
    pub(super) fn kill(&mut self) {
        self.order(Order::Kill);
        let (keeper, tree, end) = (self.keeper, self.tree.clone(), Arc::clone(&self.end));
        // At once: a thread may have to wait for its turn.
        tree.kill(&[keeper]);
        std::thread::spawn(move || {
            let began = Instant::now();
            loop {
                let is_over = end.is_over.lock().unwrap_or_else(PoisonError::into_inner);
                if *is_over {
                    return;
                }
                if tree.kill(&[keeper]) {
                    end.dead_since.store(u64::MAX, Ordering::Relaxed);
                } else {
                    end.dead_since.fetch_min(boot::now().ms(), Ordering::Relaxed);
                }
                if began.elapsed() >= KEEPER_TAKES {
                    tree.kill(&[]);
                }
                tree.reap(&[keeper]);
                drop(is_over);
                std::thread::sleep(AGAIN);
            }
        });
    }

    fn order(&mut self, order: Order) {
        // A keeper that is gone needs none; one that does not read any more is killed, too.
        let _gone = self.orders.write_all(order.line().as_bytes());
    }
}

/// Waits until the keeper has ended, and kills what it may have left behind.
async fn until_gone(mut keeper: Child, mut listens: tokio::net::UnixStream, tree: Tree) -> Ended {
    let mut line = String::new();
    let _broken = listens.read_to_string(&mut line).await;
    let _ended = keeper.wait().await;
    let ended = Ended::parse(&line);
    if let Some(ended) = ended.filter(|_| tree.is_over()) {
        return ended;
    }
    let is_clean = tokio::task::spawn_blocking(move || {
        let mut is_clean = true;
        while tree.kill(&[]) {
            is_clean = false;
            std::thread::sleep(AGAIN);
            tree.reap(&[]);
        }
        tree.reap(&[]);
        tree.remove_group();
        is_clean
    });
    let is_clean = is_clean.await.unwrap_or(false);
    match ended {
        Some(ended) if is_clean => ended,
        _ => Ended { code: ended.and_then(|ended| ended.code), at: boot::now() },
    }
}
