//! Routes: what requests ask for.

use std::fmt::Write as _;

use super::dice::Dice;

/// A method and a path; each `*` in it is a number, of something that there are many of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) method: String,
    path: Vec<String>,
}

/// Routes, and how often each is taken.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// Each with the weights up to and with its own.
    routes: Vec<(Route, u64)>,
    /// How many there are of what a `*` stands for.
    pub(super) items: u64,
}

impl Route {
    /// Reads a route such as `GET /posts/*`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (method, path) = text.trim().split_once(' ')?;
        let path = path.trim();
        let is_method =
            (1..=16).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase());
        let is_path =
            path.starts_with('/') && path.len() <= 1_024 && path.bytes().all(|byte| byte.is_ascii_graphic());
        let parts = || path.split('*').map(str::to_owned).collect();
        (is_method && is_path).then(|| Self { method: method.to_owned(), path: parts() })
    }

    /// True if a body belongs to it.
    pub(super) fn has_body(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    fn write(&self, items: u64, dice: &mut Dice, target: &mut String) {
        target.clear();
        for (index, part) in self.path.iter().enumerate() {
            if index > 0 {
                // Into a string nothing fails.
                let _ = write!(target, "{}", 1 + dice.below(items));
            }
            target.push_str(part);
        }
    }
}

impl Routes {
    /// Those of a table that is not empty.
    pub(super) fn new(weighted: Vec<(Route, u64)>, items: u64) -> Self {
        let mut sum = 0;
        let add = |(route, weight): (Route, u64)| {
            sum += weight;
            (route, sum)
        };
        Self { routes: weighted.into_iter().map(add).collect(), items }
    }

    /// Takes one of them, and writes what is asked for.
    pub(super) fn take(&self, dice: &mut Dice, target: &mut String) -> Option<&Route> {
        let sum = self.routes.last()?.1;
        let chosen = if self.routes.len() == 1 { 0 } else { dice.below(sum) };
        let place = self.routes.partition_point(|(_, up_to)| *up_to <= chosen);
        let (route, _) = self.routes.get(place)?;
        route.write(self.items, dice, target);
        Some(route)
    }
}
