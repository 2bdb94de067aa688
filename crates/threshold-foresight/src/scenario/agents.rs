//! Agents: the programs that requests are sent with, by their own word.

const BROWSERS: &[&str] = &[
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:141.0) Gecko/20100101 Firefox/141.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36",
];
const BOTS: &[&str] =
    &["Acornbot/2.1 (+https://bot.example.com/about)", "examplebot/1.0", "ArchiveSpider/3.4"];
const SCRIPTS: &[&str] = &["curl/8.14.1", "python-requests/2.32.4", "Go-http-client/2.0", "okhttp/4.12.0"];

/// What an actor sends its requests with.
#[derive(Clone, Debug)]
pub(super) enum Agents {
    /// One of these.
    Known(&'static [&'static str]),
    /// This.
    Own(String),
}

impl Agents {
    /// Those of a word, or else the text itself.
    pub(super) fn read(text: &str) -> Self {
        match text {
            "browsers" => Self::Known(BROWSERS),
            "bots" => Self::Known(BOTS),
            "scripts" => Self::Known(SCRIPTS),
            "none" => Self::Known(&[]),
            own => Self::Own(own.to_owned()),
        }
    }

    /// The one that `chosen` stands for.
    pub(super) fn pick(&self, chosen: u64) -> Option<&str> {
        match self {
            Self::Known(known) => known.get(usize::try_from(chosen).ok()?.checked_rem(known.len())?).copied(),
            Self::Own(own) => Some(own),
        }
    }
}
