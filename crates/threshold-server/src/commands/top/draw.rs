//! What is known of a server as a picture, for terminals of any size.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, RenderDirection, Sparkline};

use super::view::{Met, Sample, View};

/// How it is to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) coloured: bool,
    /// True while the picture is held still.
    pub(super) held: bool,
}

impl Look {
    fn colour(self, colour: Color) -> Style {
        if self.coloured { Style::new().fg(colour) } else { Style::new() }
    }

    fn title(self, text: &str) -> Block<'_> {
        let block = Block::new().borders(Borders::TOP).title(format!(" {text} "));
        if self.coloured { block.border_style(Style::new().fg(Color::DarkGray)) } else { block }
    }
}

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View, look: Look) {
    let area = frame.area();
    let charts = if area.height >= 30 { area.height / 3 } else { 6 };
    let happened = if area.height >= 24 { area.height / 5 } else { 0 };
    let [head, figures, traffic, layers, most, events, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(charts),
        Constraint::Length(6),
        Constraint::Min(3),
        Constraint::Length(happened),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(heading(view, look), head);
    frame.render_widget(numbers(view, look), figures);
    let [passed, refused] = Layout::horizontal([Constraint::Fill(1); 2]).spacing(1).areas(traffic);
    let of = |sample: &Sample| sample.allowed + sample.warned + sample.delayed;
    chart(frame, passed, (view, look), ("passed a second", of, Color::Green));
    chart(frame, refused, (view, look), ("refused a second", |sample| sample.denied, Color::Red));
    frame.render_widget(by_layer(view, look), layers);
    tops(frame, most, view, look);
    frame.render_widget(happens(view, look), events);
    frame.render_widget(footer(look), keys);
}

/// What happened last.
fn happens<'a>(view: &'a View, look: Look) -> Paragraph<'a> {
    let lines = match &*view.events {
        [] => vec![Line::from("strikes, sanctions, lockouts and alerts appear here as they happen")],
        events => events.iter().map(|event| Line::from(event.as_str())).collect(),
    };
    Paragraph::new(lines).block(look.title("what happens"))
}

fn heading<'a>(view: &'a View, look: Look) -> Paragraph<'a> {
    let mut words = vec![
        Span::styled("threshold", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("  {}  ", view.place)),
    ];
    let troubles = view.troubles();
    words.push(match &view.lost {
        Some(why) => Span::styled(format!("lost: {why}"), look.colour(Color::Red)),
        None if !troubles.is_empty() => Span::styled(troubles.join("; "), look.colour(Color::Red)),
        None => Span::styled("all is well", look.colour(Color::Green)),
    });
    if look.held {
        words.push(Span::styled("  held", look.colour(Color::Yellow)));
    }
    Paragraph::new(Line::from(words))
}

fn numbers<'a>(view: &View, look: Look) -> Paragraph<'a> {
    let (asked, denied) = (view.recent(Sample::all), view.recent(|one| one.denied));
    let share = if asked > 0.0 { 100.0 * denied / asked } else { 0.0 };
    let sanctions: u64 = view.sanctions.iter().map(|(_, count)| count).sum();
    let mut words = vec![format!("{} requests/s", count(asked)), format!("{share:.1} % refused")];
    words.push(format!("{} warned", count(view.recent(|one| one.warned))));
    words.push(format!("{} slowed", count(view.recent(|one| one.delayed))));
    words.push(format!("{sanctions} sanctions"));
    words.extend(view.connections.map(|connections| format!("{connections} connections")));
    let used = view.components.iter().filter(|(_, status)| status != "none");
    let state = |(name, status): &(String, String)| {
        let colour = if status == "failing" { Color::Red } else { Color::Green };
        [Span::raw(format!("{name} ")), Span::styled(format!("{status}   "), look.colour(colour))]
    };
    Paragraph::new(vec![Line::from(words.join("  ")), Line::from_iter(used.flat_map(state))])
}

/// One kind of seconds, the latest at the right.
fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    (view, look): (&View, Look),
    (title, of, colour): (&str, impl Fn(&Sample) -> f64, Color),
) {
    let latest = view.samples.back().map_or(0.0, &of);
    let width = usize::from(area.width);
    // Tenths, so that a trickle is seen beside nothing.
    let tenths: Vec<u64> =
        view.samples.iter().rev().take(width).map(|one| (of(one) * 10.0).round() as u64).collect();
    let most = tenths.iter().max().copied().unwrap_or_default() as f64 / 10.0;
    let title = format!("{title}: {} (most {})", count(latest), count(most));
    let sparks =
        Sparkline::default().block(look.title(&title)).data(tenths).direction(RenderDirection::RightToLeft);
    frame.render_widget(sparks.style(look.colour(colour)), area);
}

/// What each layer does with what reaches it.
fn by_layer(view: &View, look: Look) -> Paragraph<'static> {
    let nothing = Sample::default();
    let latest = view.samples.back().unwrap_or(&nothing);
    let line = |(layer, met): &(&str, Met)| {
        let of = |word: &str, value: f64| format!("{word} {:<7}", count(value));
        let denied = look.colour(if met.denied > 0.0 { Color::Red } else { Color::Reset });
        let passed =
            [of("allowed", met.allowed), of("warned", met.warned), of("slowed", met.delayed)].join(" ");
        Line::from(vec![
            Span::raw(format!("{layer:<9} {passed} ")),
            Span::styled(of("denied", met.denied), denied),
        ])
    };
    let mut lines: Vec<_> = latest.layers.iter().map(line).collect();
    lines.push(Line::from(format!("banned    {} before any layer", count(latest.barred))));
    let block = Block::new().borders(Borders::TOP).title(" a second, by the layers that requests reach ");
    let block = if look.coloured { block.border_style(Style::new().fg(Color::DarkGray)) } else { block };
    Paragraph::new(lines).block(block)
}

/// Who was refused most.
fn tops(frame: &mut Frame<'_>, area: Rect, view: &View, look: Look) {
    let places: [Rect; 3] =
        Layout::horizontal([Constraint::Fill(2), Constraint::Fill(1), Constraint::Fill(1)])
            .spacing(1)
            .areas(area);
    for ((name, rows), place) in view.top.iter().zip(places) {
        let title = format!("refused {name}");
        let width = usize::from(place.width);
        let line = |(key, blocks): &(String, u64)| {
            let number = count(*blocks as f64);
            let shown = fitted(key, width.saturating_sub(number.len() + 1));
            Line::from(format!("{shown} {number}"))
        };
        let lines: Vec<Line<'_>> =
            if rows.is_empty() { vec![Line::from("nobody")] } else { rows.iter().map(line).collect() };
        frame.render_widget(Paragraph::new(lines).block(look.title(&title)), place);
    }
}

fn footer(look: Look) -> Paragraph<'static> {
    let text = if look.held { "q ends   p goes on" } else { "q ends   p holds it still" };
    Paragraph::new(text).style(look.colour(Color::DarkGray))
}

/// A text in exactly `room` columns of a terminal: cut, or with blanks behind it. Some letters take two columns, some none.
fn fitted(text: &str, room: usize) -> String {
    let columns = |text: &str| Span::raw(text).width();
    let mut shown = if room > 0 { text.to_owned() } else { String::new() };
    while columns(&shown) > room {
        // The mark that something is left out takes the place of the last letter.
        let kept = shown.strip_suffix('…').unwrap_or(&shown);
        let end = kept.char_indices().next_back().map_or(0, |(start, _)| start);
        shown.truncate(end);
        shown.push('…');
    }
    let blanks = room - columns(&shown);
    shown.extend(std::iter::repeat_n(' ', blanks));
    shown
}

/// A number in a few letters.
fn count(number: f64) -> String {
    match number {
        _ if number >= 1e6 => format!("{:.1}M", number / 1e6),
        _ if number >= 1e4 => format!("{:.1}k", number / 1e3),
        _ if number < 10.0 => format!("{number:.1}").replace(".0", ""),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    fn view() -> View {
        let mut view = View::new("http://127.0.0.1:8083".to_owned());
        let second = |allowed: u64| {
            json!({
                "seconds": 1.0, "allowed": allowed, "warned": 2, "delayed": 1, "denied": 7, "barred": 3,
                "layers": {
                    "edge": { "allowed": allowed, "warned": 0, "delayed": 1, "denied": 4 },
                    "user": { "allowed": allowed, "warned": 2, "delayed": 1, "denied": 0 },
                },
            })
        };
        let traffic = json!({
            "started": "now",
            "samples": (0..50).map(second).collect::<Vec<_>>(),
            "top": {
                "addresses": [{ "name": "address:00112233445566778899aabbccddeeff", "blocks": 12_345 }],
                "endpoints": [{ "name": "evil\u{1b}[2J\u{202e}<script>", "blocks": 3 }],
                "tenants": [],
            },
            "sanctions": { "ban": 2, "shadow": 1 },
            "gateway": { "connections": 9 },
        });
        let status = json!({
            "components": { "store": { "status": "healthy" }, "cache": { "status": "none" } },
            "currentStrategy": "full",
            "health": { "policy": "current" },
        });
        view.take((traffic, status));
        let event = json!({
            "event": "sanction_imposed", "timestamp": "2026-01-01T12:00:01.000000Z", "kind": "ban",
            "reason": "\u{1b}[31mred\u{202e}",
        });
        view.feed.hear(&event);
        view.events = view.feed.latest();
        view
    }

    /// What is on a screen of that size.
    fn screen(view: &View, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view, Look { coloured: true, held: false })).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn everything_is_there_on_a_small_screen_and_on_a_large_one() {
        for size in [(80, 24), (200, 60)] {
            let shown = screen(&view(), size);
            for wanted in [
                "all is well",
                "requests/s",
                "3 sanctions",
                "9 connections",
                "store healthy",
                "passed a second: 52",
                "refused a second: 7",
                "edge      allowed 49      warned 0       slowed 1       denied 4",
                "user      allowed 49      warned 2",
                "endpoint  allowed 0",
                "banned    3 before any layer",
                "address:0011",
                "12.3k",
                "nobody",
                "what happens",
                "12:00:01 sanction imposed",
                "q ends",
            ] {
                assert!(shown.contains(wanted), "{size:?} {wanted}\n{shown}");
            }
            assert!(!shown.contains("cache"), "what is not used is not shown\n{shown}");
        }
    }

    #[test]
    fn text_of_strangers_moves_no_cursor() {
        let shown = screen(&view(), (200, 60));
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        assert!(shown.contains("evil"), "{shown}");
    }

    #[test]
    fn wide_letters_push_no_count_out() {
        let texts =
            ["short", "日本語のテナント名がとても長い", "a\u{301}bc", "مرحبا بالعالم", "👩‍👩‍👧‍👦 family", ""];
        for room in 0..20 {
            for text in texts {
                assert_eq!(Span::raw(fitted(text, room)).width(), room, "{text} in {room}");
            }
        }
        let mut view = view();
        view.top[2].1 = vec![("漢".repeat(100), 4_321)];
        assert!(screen(&view, (80, 24)).contains("4321"), "{}", screen(&view, (80, 24)));
    }

    #[test]
    fn there_is_no_size_that_it_cannot_be_drawn_in() {
        let mut view = view();
        view.lose("it does not answer".to_owned());
        for size in [(1, 1), (3, 40), (20, 5), (80, 10), (300, 100)] {
            screen(&view, size);
        }
        assert!(screen(&view, (80, 24)).contains("lost: it does not answer"));
    }
}
