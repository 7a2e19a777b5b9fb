//! The table, row by row.

use rstest::rstest;

use super::*;
use crate::certs::certificate::CertificateError;

const LEAF: Duration = Duration::days(90);

fn lifetimes() -> Lifetimes {
    Lifetimes::of_leaf(LEAF)
}

fn now() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap()
}

/// An authority with so much of its life left.
fn authority_with(left: Duration) -> Validity {
    let not_after = now() + left;
    Validity { not_before: not_after - lifetimes().authority, not_after }
}

/// A leaf with so much of its life left.
fn validity_with(left: Duration) -> Validity {
    let not_after = now() + left;
    Validity { not_before: not_after - LEAF, not_after }
}

fn leaf() -> SeenLeaf {
    SeenLeaf { validity: validity_with(LEAF), of_newest: true, is_served: true, is_trusted: true }
}

/// All is well, and has been for a day.
fn seen() -> Seen {
    Seen {
        authority: Ok(authority_with(lifetimes().authority)),
        expired_in_bundle: false,
        leaf: Ok(leaf()),
        publication: Publication::Since(now() - Duration::DAY),
        served_is_trusted: true,
    }
}

fn broken() -> Defect {
    Defect::Authorities(CertificateError::Pem)
}

fn just_published() -> Publication {
    Publication::Since(now() - lifetimes().settling + Duration::SECOND)
}

#[rstest]
#[case::an_empty_cluster(
    Seen { authority: Err(Defect::Absent), leaf: Err(Defect::Absent), served_is_trusted: false,
           publication: Publication::Differs, ..seen() },
    Step::IssueAuthority(Cause::Defect(Defect::Absent))
)]
#[case::a_damaged_authority(
    Seen { authority: Err(broken()), ..seen() },
    Step::IssueAuthority(Cause::Defect(broken()))
)]
#[case::before_anything_else(
    Seen { authority: Err(broken()), leaf: Ok(SeenLeaf { is_served: false, ..leaf() }),
           publication: Publication::Differs, expired_in_bundle: true, ..seen() },
    Step::IssueAuthority(Cause::Defect(broken()))
)]
fn row_1_an_authority_is_issued_where_there_is_none(#[case] seen: Seen, #[case] step: Step) {
    assert_eq!(next_step(&seen, &lifetimes(), now()), step);
}

#[rstest]
#[case::at_the_start(
    Seen { leaf: Ok(SeenLeaf { is_served: false, ..leaf() }), served_is_trusted: false, ..seen() },
    Step::Serve
)]
#[case::renewed_by_another_replica(Seen { leaf: Ok(SeenLeaf { is_served: false, ..leaf() }), ..seen() }, Step::Serve)]
#[case::nothing_to_lose_before_the_bundle_is_published(
    Seen { leaf: Ok(SeenLeaf { is_served: false, is_trusted: false, ..leaf() }), served_is_trusted: false,
           publication: Publication::Differs, ..seen() },
    Step::Serve
)]
#[case::not_yet_trusted_while_the_served_one_is(
    Seen { leaf: Ok(SeenLeaf { is_served: false, is_trusted: false, ..leaf() }),
           publication: Publication::Differs, ..seen() },
    Step::Publish
)]
#[case::also_when_it_is_due(
    Seen { leaf: Ok(SeenLeaf { is_served: false, validity: validity_with(LEAF / 4), ..leaf() }),
           served_is_trusted: false, ..seen() },
    Step::Serve
)]
fn row_2_a_leaf_is_served_as_soon_as_it_harms_nobody(#[case] seen: Seen, #[case] step: Step) {
    assert_eq!(next_step(&seen, &lifetimes(), now()), step);
}

#[rstest]
#[case::a_second_early(Duration::SECOND, Step::Wait(Waiting::Change))]
#[case::on_time(Duration::ZERO, Step::IssueAuthority(Cause::Due))]
#[case::late(-Duration::DAY, Step::IssueAuthority(Cause::Due))]
fn row_3_the_next_authority_comes_after_two_thirds(#[case] early: Duration, #[case] step: Step) {
    let authority = authority_with(lifetimes().authority / 3 + early);
    assert_eq!(next_step(&Seen { authority: Ok(authority), ..seen() }, &lifetimes(), now()), step);
}

#[test]
fn row_4_an_authority_that_is_over_is_dropped() {
    let seen = Seen { expired_in_bundle: true, publication: Publication::Differs, ..seen() };
    assert_eq!(next_step(&seen, &lifetimes(), now()), Step::DropExpired);
}

#[rstest]
#[case::wiped(Seen { served_is_trusted: false, leaf: Ok(SeenLeaf { is_trusted: false, ..leaf() }), ..seen() })]
#[case::a_foreign_one_beside_it(seen())]
#[case::before_the_leaf_of_a_new_authority(Seen { leaf: Ok(SeenLeaf { of_newest: false, ..leaf() }), ..seen() })]
#[case::before_the_first_leaf(Seen { leaf: Err(Defect::Absent), served_is_trusted: false, ..seen() })]
fn row_5_the_bundle_is_published(#[case] seen: Seen) {
    let seen = Seen { publication: Publication::Differs, ..seen };
    assert_eq!(next_step(&seen, &lifetimes(), now()), Step::Publish);
}

#[rstest]
#[case::the_first(
    Seen { leaf: Err(Defect::Absent), served_is_trusted: false, publication: just_published(), ..seen() },
    Cause::Defect(Defect::Absent)
)]
#[case::there_is_no_configuration_yet(
    Seen { leaf: Err(Defect::Absent), served_is_trusted: false, publication: Publication::NoConfiguration,
           ..seen() },
    Cause::Defect(Defect::Absent)
)]
#[case::lost_while_it_is_served(Seen { leaf: Err(Defect::Absent), ..seen() }, Cause::Defect(Defect::Absent))]
#[case::of_a_new_authority(Seen { leaf: Ok(SeenLeaf { of_newest: false, ..leaf() }), ..seen() }, Cause::NewAuthority)]
#[case::due(Seen { leaf: Ok(SeenLeaf { validity: validity_with(LEAF / 3), ..leaf() }), ..seen() }, Cause::Due)]
#[case::over_while_the_bundle_settles(
    Seen { leaf: Err(Defect::Absent), served_is_trusted: false, publication: just_published(), ..seen() },
    Cause::Defect(Defect::Absent)
)]
fn row_6_a_leaf_is_issued_under_a_published_bundle(#[case] seen: Seen, #[case] cause: Cause) {
    assert_eq!(next_step(&seen, &lifetimes(), now()), Step::IssueLeaf(cause));
}

#[rstest]
#[case::of_a_new_authority(Seen { leaf: Ok(SeenLeaf { of_newest: false, ..leaf() }), ..seen() })]
#[case::lost_with_its_authority(Seen { leaf: Err(Defect::Absent), ..seen() })]
fn row_7_a_leaf_waits_until_every_api_server_knows_the_bundle(#[case] seen: Seen) {
    let seen = Seen { publication: just_published(), ..seen };
    assert_eq!(next_step(&seen, &lifetimes(), now()), Step::Wait(Waiting::Settling));
    let later = now() + Duration::SECOND;
    assert!(matches!(next_step(&seen, &lifetimes(), later), Step::IssueLeaf(_)));
}

#[rstest]
#[case::all_is_well(seen())]
#[case::a_second_before_the_leaf_is_due(
    Seen { leaf: Ok(SeenLeaf { validity: validity_with(LEAF / 3 + Duration::SECOND), ..leaf() }), ..seen() }
)]
#[case::served_and_no_configuration(
    Seen { publication: Publication::NoConfiguration, served_is_trusted: false,
           leaf: Ok(SeenLeaf { is_trusted: false, ..leaf() }), ..seen() }
)]
fn row_8_otherwise_nothing_is_done(#[case] seen: Seen) {
    assert_eq!(next_step(&seen, &lifetimes(), now()), Step::Wait(Waiting::Change));
}

#[test]
fn a_leaf_lives_on_when_its_authority_is_replaced() {
    let lifetimes = lifetimes();
    let renewed = Validity::starting(now(), lifetimes.authority).renewal();
    assert!(renewed + lifetimes.leaf < now() + lifetimes.authority, "it is over before its authority is");
    assert_eq!(Lifetimes::of_leaf(Duration::MINUTE).settling, Duration::seconds(3));
}
