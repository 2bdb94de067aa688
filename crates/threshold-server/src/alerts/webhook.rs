//! Addresses that alarms are posted to, and which alarms each of them is told.

use std::collections::HashSet;

use threshold::policy::{AlertSeverity, WebhookFormat};

use super::watch::{Alert, State};
use crate::outbound::Url;

/// An address that alarms are posted to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(crate) url: Url,
    pub(crate) format: WebhookFormat,
    pub(crate) secret: Option<Vec<u8>>,
    /// Alarms of this severity and above.
    pub(crate) least: AlertSeverity,
}

/// The alarms that a hook was told of and that are not over for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(HashSet<String>);

impl Open {
    /// What is told of `alert` where only `least` and above count: if it falls below that, it is over there.
    pub(super) fn filter(&mut self, alert: &Alert, least: AlertSeverity) -> Option<Alert> {
        if alert.state == State::Firing && alert.severity >= least {
            self.0.insert(alert.id.clone());
            return Some(alert.clone());
        }
        self.0.remove(&alert.id).then(|| Alert { state: State::Resolved, ..alert.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold::policy::AlertMetric;

    fn alert(severity: AlertSeverity, state: State) -> Alert {
        let (id, metric) = ("many".to_owned(), AlertMetric::Refused);
        let at = threshold::Timestamp::default();
        Alert {
            id,
            node: std::sync::Arc::default(),
            metric,
            severity,
            state,
            value: 1,
            threshold: 1,
            window: None,
            since: at,
            at,
            reminder: false,
        }
    }

    #[test]
    fn who_hears_only_of_the_worst_hears_when_it_is_over() {
        use AlertSeverity::{Critical, Warning};
        let mut open = Open::default();
        let mut told =
            |severity, state| open.filter(&alert(severity, state), Critical).map(|alert| alert.state);
        assert_eq!(told(Warning, State::Firing), None);
        assert_eq!(told(Critical, State::Firing), Some(State::Firing));
        assert_eq!(told(Warning, State::Firing), Some(State::Resolved));
        assert_eq!(told(Warning, State::Resolved), None);
        assert_eq!(told(Critical, State::Firing), Some(State::Firing));
        assert_eq!(told(Critical, State::Resolved), Some(State::Resolved));
    }
}
