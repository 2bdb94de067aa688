//! `threshold top`: what happens just now, in a terminal.
//!
//! | module | holds |
//! | --- | --- |
//! | `view` | what is known of a server |
//! | `draw` | the same as a picture |
//! | `feed` | what happened last, in words |
//!
//! One thread asks the server and another one draws, so that a server which does not answer holds up no key. The first also
//! hears when the process is told to end, so that the terminal is left as it was found.

mod draw;
mod feed;
mod view;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value as Json;
use tokio::signal::unix::{SignalKind, signal};

use crate::Ended;
use crate::cli::Top;
use crate::output::{Output, Style, harmless};
use crate::remote::Remote;
use feed::Feed;
use view::View;

/// How often a server is asked, and how long keys are waited for.
const SECOND: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// What a server said: its traffic and its status; or why it said nothing.
type Said = Result<(Json, Json), String>;

/// Shows a server until a key ends it.
pub(crate) fn top(asked: &Top, output: &mut Output) -> Ended {
    match show(asked, output) {
        Ok(()) => Ended::Well,
        Err(what) => {
            output.labelled(Style::Error, "error", &harmless(&what));
            Ended::NotRun
        }
    }
}

fn show(asked: &Top, output: &Output) -> Result<(), String> {
    let remote = Remote::new(asked.admin.as_deref(), asked.token_file.as_deref())?;
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Err("this needs a terminal; `threshold status --json` says how the parts are".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}; try again"))?;
    // What is wrong with the address or the token is told before anything is drawn.
    let first = runtime.block_on(ask(&remote, None))?;
    let mut view = View::new(remote.to_string());
    view.take(first);
    let (tell, said) = sync_channel(1);
    let (feed, over) = (view.feed.clone(), Arc::new(AtomicBool::new(false)));
    let ended = {
        let _runtime = runtime.enter();
        told_to_end().map_err(|error| format!("signals cannot be heard: {error}; try again"))?
    };
    let asking = std::thread::Builder::new().name("top".to_owned());
    let asking = asking.spawn({
        let over = Arc::clone(&over);
        move || {
            runtime.block_on(async {
                tokio::select! {
                    () = learn(&remote, &tell, &feed) => {}
                    () = ended => over.store(true, Ordering::Relaxed),
                }
            });
        }
    });
    asking.map_err(|error| format!("no thread could be started: {error}; try again"))?;
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("the terminal cannot be used: {error}; try another"))?;
    let ended = run(&mut terminal, (view, output.is_coloured()), (&said, &over));
    ratatui::restore();
    ended.map_err(|error| format!("the terminal failed: {error}"))
}

/// Waits until the process is told to end, or its terminal is gone.
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut told = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()]
        .into_iter()
        .map(signal)
        .collect::<io::Result<Vec<_>>>()?;
    Ok(async move {
        let heard = told.iter_mut().map(|one| Box::pin(one.recv()));
        futures_util::future::select_all(heard).await;
    })
}

/// Asks what there is to see, of the time after `after`.
async fn ask(remote: &Remote, after: Option<f64>) -> Said {
    let path = after.map_or_else(|| "traffic".to_owned(), |after| format!("traffic?after={after}"));
    Ok((remote.get(&path).await?, remote.get("rate-limit-status").await?))
}

/// Asks and listens, for as long as somebody wants to know.
async fn learn(remote: &Remote, tell: &SyncSender<Said>, feed: &Feed) {
    tokio::select! {
        () = follow(remote, tell) => {}
        () = listen(remote, feed) => {}
    }
}

/// Listens to what happens, and again when the connection is lost; that it is lost, whoever asks says.
async fn listen(remote: &Remote, feed: &Feed) {
    loop {
        let _ = remote.listen(|event| feed.hear(&event)).await;
        tokio::time::sleep(SECOND).await;
    }
}

/// Asks once a second, for as long as somebody listens.
async fn follow(remote: &Remote, tell: &SyncSender<Said>) {
    let mut after = None;
    loop {
        tokio::time::sleep(SECOND).await;
        let said = ask(remote, after).await;
        if let Ok((traffic, _)) = &said {
            after = traffic["samples"].as_array().and_then(|all| all.last()?["at"].as_f64()).or(after);
        }
        if tell.send(said).is_err() {
            return;
        }
    }
}

/// Draws what is known until a key or a signal ends it.
fn run(
    terminal: &mut DefaultTerminal,
    (mut view, coloured): (View, bool),
    (said, over): (&Receiver<Said>, &AtomicBool),
) -> io::Result<()> {
    let mut held = false;
    while !over.load(Ordering::Relaxed) {
        match said.try_recv() {
            Ok(Ok(known)) if !held => view.take(known),
            Ok(Ok(_)) | Err(TryRecvError::Empty) => {}
            Ok(Err(why)) => view.lose(why),
            Err(TryRecvError::Disconnected) => view.lose("the connection has ended".to_owned()),
        }
        if !held {
            view.events = view.feed.latest();
        }
        terminal.draw(|frame| draw::draw(frame, &view, draw::Look { coloured, held }))?;
        if !event::poll(LOOK)? {
            continue;
        }
        if let Event::Key(key) = event::read()? {
            match pressed(key) {
                Some(Pressed::End) => return Ok(()),
                Some(Pressed::Hold) => held = !held,
                None => {}
            }
        }
    }
    Ok(())
}

/// What a key is for.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    End,
    Hold,
}

fn pressed(key: KeyEvent) -> Option<Pressed> {
    if key.kind != KeyEventKind::Press {
        return None;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Pressed::End),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Pressed::End),
        KeyCode::Char('p' | ' ') => Some(Pressed::Hold),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_it_and_hold_it() {
        let key = |code, modifiers| pressed(KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::NONE), Some(Pressed::End));
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Some(Pressed::End));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Pressed::End));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char(' '), KeyModifiers::NONE), Some(Pressed::Hold));
    }
}
