//! `signet top`: a picture of a running server, drawn anew each second.

use std::io::{IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use measure::Screen;
use signet_serve::Error;
use signet_serve::admin::{Instance, top};
use signet_sipp::{Keyboard, hold_signals};
use sip_net::sys::terminal_size;

/// From one picture to the next.
const STEP: Duration = Duration::from_secs(1);

/// Draws until `q` or a signal; where the output is no terminal, once.
pub(crate) fn run(place: &Instance, json: bool) -> Result<(), Error> {
    let title = match place {
        Instance::Config(path) | Instance::Data(path) => path.display().to_string(),
    };
    let first = top::ask(place)?;
    if json || !std::io::stdout().is_terminal() {
        std::thread::sleep(STEP);
        let second = top::ask(place)?;
        let seen = top::seen(Some(&first), &second);
        return match json {
            true => say(&format!("{}\n", seen.json()?)),
            false => say(&seen.picture(&title)),
        };
    }
    // Before any thread is started; and the terminal is as it was when this returns.
    let end = wait_for_end();
    let mut screen = Screen::new();
    let (mut before, mut now) = (None, first);
    loop {
        let picture = top::seen(before.as_ref(), &now).picture(&title);
        say(&screen.draw(&picture, terminal_size(std::io::stdout())))?;
        match end.told.recv_timeout(STEP) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
        before = Some(std::mem::replace(&mut now, top::ask(place)?));
    }
}

/// Where the wish to end comes from.
struct End {
    told: Receiver<()>,
    _keyboard: Option<Keyboard>,
    /// Keeps the way open where no thread does.
    _tell: Sender<()>,
}

fn wait_for_end() -> End {
    let (tell, told) = channel();
    if let Some(signals) = hold_signals() {
        let tell = tell.clone();
        spawn(move || {
            let _ = signals.wait();
            let _ = tell.send(());
        });
    }
    let keyboard = Keyboard::take();
    if keyboard.is_some() {
        let tell = tell.clone();
        spawn(move || {
            let mut key = [0];
            while let Ok(1) = std::io::stdin().read(&mut key) {
                if matches!(&key, b"q" | b"Q") {
                    let _ = tell.send(());
                    return;
                }
            }
        });
    }
    End {
        told,
        _keyboard: keyboard,
        _tell: tell,
    }
}

fn spawn(body: impl FnOnce() + Send + 'static) {
    // Without the thread the picture is drawn all the same.
    let _ = std::thread::Builder::new().spawn(body);
}

/// Writes to the standard output. A reader that has gone is no error.
fn say(text: &str) -> Result<(), Error> {
    measure::stdout::print(text).map_err(|error| {
        Error::new(
            error,
            "look at the terminal, file or program that it goes to",
        )
    })
}
