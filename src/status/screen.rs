//! Drawing in place: another screen for as long as it goes on, and the old one back however it
//! ends.

use std::io::{self, Write as _};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Another screen, without a cursor.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
/// The cursor and the old screen back.
const CLOSE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// To the first line.
const HOME: &str = "\x1b[H";
/// Whatever is left in a line is removed before it is written: after its last column that would
/// remove a character.
const CLEAR_LINE: &str = "\x1b[2K";
/// Whatever is below.
const CLEAR_REST: &str = "\x1b[J";

/// Whether the other screen is shown. There is one terminal, so there is one of this.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The other screen; gone when dropped, and also after a panic that ends the program at once.
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

    /// Shows these lines instead of what was there.
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

/// Once only: the sequence would move the cursor of the old screen.
fn close() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        // A terminal that is gone needs nothing.
        let _ = write(CLOSE);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
