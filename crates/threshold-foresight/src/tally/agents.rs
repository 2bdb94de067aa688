//! Agents: what kind of program sends a request, by its own word.

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Agent {
    /// It says nothing.
    None = 1,
    /// It calls itself a browser.
    Browser = 2,
    /// It calls itself a crawler.
    Crawler = 4,
    /// A library or a command.
    Program = 8,
}

const CRAWLERS: [&str; 8] = ["bot", "crawl", "spider", "slurp", "preview", "monitor", "scan", "scrap"];

impl Agent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Browser, Self::Crawler, Self::Program];

    /// What kind `agent` says it is.
    #[must_use]
    pub fn of(agent: Option<&str>) -> Self {
        let Some(agent) = agent.filter(|agent| !agent.is_empty() && *agent != "-") else {
            return Self::None;
        };
        if is_crawler(agent) {
            return Self::Crawler;
        }
        match agent.starts_with("Mozilla/") || agent.starts_with("Opera/") {
            true => Self::Browser,
            false => Self::Program,
        }
    }

    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "unnamed",
            Self::Browser => "browser",
            Self::Crawler => "crawler",
            Self::Program => "program",
        }
    }
}

/// Whether one of [`CRAWLERS`] is in `text`. Few places begin with a letter that one of them begins with.
fn is_crawler(text: &str) -> bool {
    let text = text.as_bytes();
    let begins = |place: &usize| FIRST[usize::from(text[*place])];
    (0..text.len()).filter(begins).any(|place| CRAWLERS.iter().any(|word| starts(&text[place..], word)))
}

fn starts(text: &[u8], word: &str) -> bool {
    text.get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// The letters that the words begin with, small and large.
const FIRST: [bool; 256] = {
    let (mut first, mut word) = ([false; 256], 0);
    while word < CRAWLERS.len() {
        let letter = CRAWLERS[word].as_bytes()[0];
        first[letter as usize] = true;
        first[letter.to_ascii_uppercase() as usize] = true;
        word += 1;
    }
    first
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_what_it_says_it_is() {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        let google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
        assert_eq!(Agent::of(Some(firefox)), Agent::Browser);
        assert_eq!(Agent::of(Some(google)), Agent::Crawler);
        assert_eq!(Agent::of(Some("curl/8.5.0")), Agent::Program);
        assert_eq!(Agent::of(Some("-")), Agent::None);
        assert_eq!(Agent::of(None), Agent::None);
    }

    #[test]
    fn a_crawler_is_one_wherever_it_says_so() {
        for word in CRAWLERS {
            for text in
                [word.to_owned(), word.to_uppercase(), format!("Mozilla/5.0 s{word}"), format!("{word}ä/1")]
            {
                assert_eq!(Agent::of(Some(&text)), Agent::Crawler, "{text}");
            }
            let (short, _) = word.split_at(word.len() - 1);
            assert_eq!(Agent::of(Some(short)), Agent::Program, "{short}");
        }
    }
}
