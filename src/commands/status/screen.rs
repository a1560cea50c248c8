//! Draws in place on the terminal's alternate screen, and restores the normal one on every exit.

use std::io::{self, Write as _};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Switches to the alternate screen and hides the cursor.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
/// Restores the cursor and the normal screen.
const CLOSE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// Moves the cursor to the first line.
const HOME: &str = "\x1b[H";
/// Clears a line before it is written. Clearing the rest after writing would remove a character in
/// the last column.
const CLEAR_LINE: &str = "\x1b[2K";
/// Clears everything below.
const CLEAR_REST: &str = "\x1b[J";

/// Whether the alternate screen is shown. Global, because there is only one terminal.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The alternate screen. Closed on drop, and by the panic hook, since a panic may abort the
/// program.
pub(super) struct Screen(());

impl Screen {
    pub(super) fn open() -> io::Result<Screen> {
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                close();
                before(info);
            }));
        });
        IS_OPEN.store(true, Ordering::SeqCst);
        let screen = Screen(());
        write(OPEN)?;
        Ok(screen)
    }

    /// Draws these lines instead of the previous ones.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let text: Vec<String> = lines.iter().map(|line| format!("{CLEAR_LINE}{line}")).collect();
        write(&format!("{HOME}{}\r\n{CLEAR_REST}", text.join("\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        close();
    }
}

/// Acts once only: a second time, the sequence would move the cursor of the normal screen.
fn close() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        // A closed terminal needs no restoring.
        let _ = write(CLOSE);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
