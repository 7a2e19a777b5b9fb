//! The report as a table for people. Pure, but for the writer.

use std::io::{self, Write};

use comfy_table::{Table, presets};

use super::report::{Difference, Kind, Report};

/// Prints it.
pub(super) fn print(report: &Report, paper: &mut dyn Write) -> io::Result<()> {
    let cluster = &report.cluster;
    if report.differences.is_empty() {
        return writeln!(paper, "Cluster {cluster} and its registries agree.");
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["NAMESPACE", "NAME", "REGISTRY", "ENTRY", "ROW", "DIFFERS", "WRITE"]);
    for difference in &report.differences {
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        table.add_row([
            difference.namespace.clone(),
            difference.name.clone(),
            or_none(difference.registry.as_deref()),
            or_none(difference.entry.as_deref()),
            difference.row.map_or_else(|| or_none(None), |row| row.to_string()),
            difference.differs.join(", "),
            write(difference),
        ]);
    }
    for line in table.lines() {
        writeln!(paper, "{}", line.trim_end())?;
    }
    let count = report.differences.len();
    let differences = if count == 1 { "difference" } else { "differences" };
    writeln!(paper, "\n{count} {differences} in cluster {cluster}.")
}

fn write(difference: &Difference) -> String {
    match difference.write {
        Some(Kind::Register) => "register".into(),
        Some(Kind::Patch) => "set what differs".into(),
        Some(Kind::Retire) => "set UNDEPLOYED".into(),
        Some(Kind::Record) => "add the deployment".into(),
        Some(Kind::TakeOver) => "take over".into(),
        None => format!("none: {}", difference.remark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(differences: Vec<Difference>) -> String {
        let mut paper = Vec::new();
        print(&Report { cluster: "east".into(), differences }, &mut paper).unwrap();
        String::from_utf8(paper).unwrap()
    }

    #[test]
    fn a_person_reads_what_differs_and_what_would_be_done() {
        let retired = Difference {
            namespace: "team-a".into(),
            name: "scorer".into(),
            registry: Some("gold".into()),
            entry: Some("17".into()),
            row: Some(7),
            differs: vec!["desiredState".into()],
            write: Some(Kind::Retire),
            remark: String::new(),
        };
        let stranger = Difference {
            row: None,
            differs: vec!["inference-service-id".into()],
            write: None,
            remark: "remove the label".into(),
            ..retired.clone()
        };
        assert_eq!(
            printed(vec![retired, stranger]),
            " NAMESPACE  NAME    REGISTRY  ENTRY  ROW  DIFFERS               WRITE\n \
             team-a     scorer  gold      17     7    desiredState          set UNDEPLOYED\n \
             team-a     scorer  gold      17     -    inference-service-id  none: remove the label\n\
             \n2 differences in cluster east.\n"
        );
    }

    #[test]
    fn agreement_is_said_in_a_sentence() {
        assert_eq!(printed(Vec::new()), "Cluster east and its registries agree.\n");
    }
}
