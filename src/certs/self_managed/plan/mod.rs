//! What to do next: pure, a table.
//!
//! The first row that fits decides.
//!
//! | # | seen | step |
//! |---|---|---|
//! | 1 | the Secret has no authority that can be used: none yet, damaged, over | issue one |
//! | 2 | its leaf can be used and is not served; the API server trusts it, or does not trust what is served either | serve it |
//! | 3 | two thirds of the authority's life are over | issue the next one |
//! | 4 | an authority in the bundle is over | drop it |
//! | 5 | `caBundle` is not the bundle: wiped, foreign, or not yet renewed | publish the bundle |
//! | 6 | the leaf cannot be used, two thirds of its life are over, or the newest authority did not issue it; and the bundle has been published long enough, or what is served is not trusted anyway | issue a leaf |
//! | 7 | as 6, but the bundle was published only just now | wait |
//! | 8 | anything else | wait |
//!
//! So a rotation goes through rows 3, 5, 7, 6, 2 and, once the former authority is over, 4 and 5. What stays true
//! at each point: whatever a replica serves, the API server trusts it, and so does one that has not yet heard of
//! the last change.

use rustls::pki_types::CertificateDer;
use time::{Duration, OffsetDateTime};

use super::content::{Content, Defect};
use crate::certs::bundle::Bundle;
use crate::certs::certificate::Validity;
use crate::certs::configuration::Configuration;
use crate::certs::issue::Authority;

/// An authority lives as long as so many leaves. It is replaced when a third of that is left, which is more than
/// one leaf: so no leaf is cut short by the end of its authority, and every leaf of the former authority is over
/// before that authority is.
const LEAVES_PER_AUTHORITY: i32 = 4;

/// How long a published bundle is given to reach every API server: each follows the configurations by a watch,
/// which takes well below a second, and longer only where an API server has to connect anew.
const MAX_SETTLING: Duration = Duration::seconds(30);

/// Of a short life, settling takes at most this part.
const SETTLING_AT_MOST_ONE_OF: i32 = 20;

/// How long things last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// A leaf.
    pub leaf: Duration,
    /// An authority.
    pub authority: Duration,
    /// From the publication of a bundle to the first leaf that needs it.
    pub settling: Duration,
}

impl Lifetimes {
    /// Those that go with this one for leaves.
    #[must_use]
    pub fn of_leaf(leaf: Duration) -> Self {
        Self {
            leaf,
            authority: leaf * LEAVES_PER_AUTHORITY,
            settling: MAX_SETTLING.min(leaf / SETTLING_AT_MOST_ONE_OF),
        }
    }
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write a new authority into the Secret, in front of the known ones.
    IssueAuthority(Cause),
    /// Serve the Secret's leaf.
    Serve,
    /// Write the bundle without the authorities that are over.
    DropExpired,
    /// Write the bundle into the configuration.
    Publish,
    /// Write a new leaf into the Secret.
    IssueLeaf(Cause),
    /// Nothing now.
    Wait(Waiting),
}

/// Why something is issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// What is there cannot be used.
    Defect(Defect),
    /// It was time.
    Due,
    /// The authority is another.
    NewAuthority,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// That every API server knows the bundle.
    Settling,
    /// For a change, or the time.
    Change,
}

/// All that the next step depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The authority in the Secret.
    pub authority: Result<Validity, Defect>,
    /// The bundle in the Secret holds an authority that is over.
    pub expired_in_bundle: bool,
    /// The leaf in the Secret.
    pub leaf: Result<SeenLeaf, Defect>,
    /// The bundle in the configuration.
    pub publication: Publication,
    /// The API server trusts what this replica serves.
    pub served_is_trusted: bool,
}

/// What matters of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenLeaf {
    /// From when until when.
    pub validity: Validity,
    /// The newest authority issued it.
    pub of_newest: bool,
    /// This replica serves it.
    pub is_served: bool,
    /// The API server trusts it.
    pub is_trusted: bool,
}

/// Where the bundle in the configuration stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// There is no configuration to publish in.
    NoConfiguration,
    /// Some webhook has another bundle.
    Differs,
    /// Every webhook has had the Secret's bundle since then, as far as this replica has seen.
    Since(OffsetDateTime),
}

impl Seen {
    /// What there is to see.
    #[must_use]
    pub fn of(
        content: &Content,
        configuration: Option<&Configuration>,
        served: &[CertificateDer<'_>],
        published_since: Option<OffsetDateTime>,
        now: OffsetDateTime,
    ) -> Self {
        let is_trusted = |chain: &[CertificateDer<'_>]| {
            configuration.is_some_and(|configuration| configuration.trusts(chain, now).is_ok())
        };
        let leaf = content.leaf.as_ref().map(|leaf| SeenLeaf {
            validity: leaf.certificate.validity(),
            of_newest: leaf.of_newest,
            is_served: leaf.pair.cert == served,
            is_trusted: is_trusted(&leaf.pair.cert),
        });
        let authorities = content.bundle.authorities();
        let newest = content.authority.as_ref().map(Authority::validity);
        Self {
            authority: newest.map_err(Clone::clone),
            expired_in_bundle: authorities.iter().any(|authority| authority.validity().is_over(now)),
            leaf: leaf.map_err(Clone::clone),
            publication: publication(configuration, &content.bundle, published_since, now),
            served_is_trusted: is_trusted(served),
        }
    }
}

fn publication(
    configuration: Option<&Configuration>,
    bundle: &Bundle,
    since: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> Publication {
    match configuration {
        None => Publication::NoConfiguration,
        Some(live) if live.publishes(bundle) => Publication::Since(since.map_or(now, |since| since.min(now))),
        Some(_) => Publication::Differs,
    }
}

/// The next step.
#[must_use]
pub fn next_step(seen: &Seen, lifetimes: &Lifetimes, now: OffsetDateTime) -> Step {
    let authority = match &seen.authority {
        Ok(validity) => validity,
        Err(defect) => return Step::IssueAuthority(Cause::Defect(defect.clone())),
    };
    if let Ok(leaf) = &seen.leaf
        && !leaf.is_served
        && (leaf.is_trusted || !seen.served_is_trusted)
    {
        return Step::Serve;
    }
    if now >= authority.renewal() {
        return Step::IssueAuthority(Cause::Due);
    }
    if seen.expired_in_bundle {
        return Step::DropExpired;
    }
    if seen.publication == Publication::Differs {
        return Step::Publish;
    }
    let Some(cause) = cause_for_a_leaf(&seen.leaf, now) else { return Step::Wait(Waiting::Change) };
    let settled = matches!(seen.publication, Publication::Since(since) if now - since >= lifetimes.settling);
    if settled || !seen.served_is_trusted { Step::IssueLeaf(cause) } else { Step::Wait(Waiting::Settling) }
}

fn cause_for_a_leaf(leaf: &Result<SeenLeaf, Defect>, now: OffsetDateTime) -> Option<Cause> {
    match leaf {
        Err(defect) => Some(Cause::Defect(defect.clone())),
        Ok(leaf) if !leaf.of_newest => Some(Cause::NewAuthority),
        Ok(leaf) if now >= leaf.validity.renewal() => Some(Cause::Due),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests;
