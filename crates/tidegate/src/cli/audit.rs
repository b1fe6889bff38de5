//! `tidegate audit`: checks the ledger's invariants, with or without a running server; embedded also its file and what
//! the journal has seen of it, on a cluster also the gate.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use tidegate_admission::cluster::gate::RedisGate;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::embedded::continuity::JournalFound;
use tidegate_admission::embedded::journal::OpenError;
use tidegate_admission::gate::{Gate, PoolFigures};
use tidegate_core::public_id::{Public, PublicIds};
use tidegate_core::{Campaign, Kind};
use tidegate_ledger::{Audit, Page};
use tidegate_ledger::{NoObserver, SqlLedger, path_in};
use tidegate_rehearse::print_line;

use super::{Outcome, SettingsArgs};
use crate::cluster;
use crate::config::Config;
use crate::embedded::ledger_options;

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: AuditArgs) -> anyhow::Result<Outcome> {
    let (config, _) = args.settings.load()?;
    // Before the ledger: what the journal has seen is in a ledger that is read later.
    let found = (!config.is_cluster()).then(|| JournalFound::look(&config.data_dir));
    let (ledger, gate) = open(&config).await?;
    let mut storage = Vec::new();
    if let Err(error) = ledger.verify().await {
        storage.push(error.to_string());
    } else if let Some(found) = found {
        storage = missing(found, &ledger).await?;
    }
    if !storage.is_empty() {
        report_storage(&storage, args.json);
        return Ok(Outcome::Failed);
    }
    let secret =
        ledger.settings.get("secret").await?.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 32]);
    let ids = PublicIds::new(&secret);
    let (mut sales, mut draws): (Vec<Value>, Vec<Value>) = Default::default();
    let mut ok = true;
    for (noun, found) in [("sale", &mut sales), ("draw", &mut draws)] {
        for (campaign, _) in ledger.campaigns.list(noun, None, Page::ALL).await? {
            let before = figures(gate.as_ref(), &campaign).await?;
            let Some(audit) = ledger.campaigns.audit(campaign.id).await? else { continue };
            // A change between the two reads would look like drift, so drift is computed only if they are equal.
            let after = figures(gate.as_ref(), &campaign).await?;
            let drift = after.filter(|after| Some(*after) == before).and_then(|after| drift(after, &audit));
            ok &= audit.violations.is_empty() && drift.unwrap_or(0) == 0;
            let id = match campaign.kind {
                Kind::Sale(_) => campaign.id.print(&ids),
                Kind::Draw(_) => campaign.id.as_draw().print(&ids),
            };
            if !args.json {
                print(noun, &id, &audit, drift);
            }
            found.push(json!({
                noun: id, "checked": audit.checked, "violations": audit.violations, "drift_units": drift,
            }));
        }
    }
    if args.json {
        print_line!("{}", json!({"ok": ok, "sales": sales, "draws": draws}));
    } else {
        let verdict = if ok { "every promise holds" } else { "promises are broken" };
        print_line!("{} sales and {} draws checked: {verdict}", sales.len(), draws.len());
    }
    Ok(if ok { Outcome::Passed } else { Outcome::Failed })
}

/// What the journal has and the ledger has not.
async fn missing(found: Result<JournalFound, OpenError>, ledger: &SqlLedger) -> anyhow::Result<Vec<String>> {
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let compared = found.compare(ledger.progress().await?, ledger.has_journal().await?);
    let mut missing: Vec<_> = compared.losses.iter().map(ToString::to_string).collect();
    if compared.recorded_again > 0 {
        missing.push(format!(
            "the ledger has lost the last {} recorded orders and plays; the next start records them again from the \
             journal",
            compared.recorded_again
        ));
    }
    Ok(missing)
}

fn report_storage(problems: &[String], as_json: bool) {
    if as_json {
        return print_line!("{}", json!({"ok": false, "storage": problems, "sales": [], "draws": []}));
    }
    for problem in problems {
        print_line!("{problem}");
    }
    print_line!("nothing else was checked: promises are broken");
}

/// Opens the ledger and, on a cluster, the gate.
async fn open(config: &Config) -> anyhow::Result<(SqlLedger, Option<RedisGate>)> {
    if config.is_cluster() {
        let ledger = cluster::ledger(config, Arc::new(NoObserver))?;
        let link = Link::open(&config.redis_url).await.context("Redis cannot be used")?;
        return Ok((ledger, Some(RedisGate::new(link, config.cluster.prefix.clone(), "audit"))));
    }
    if !path_in(&config.data_dir).exists() {
        bail!("no ledger in {}; set its directory with --data-dir", config.data_dir.display());
    }
    Ok((SqlLedger::open_read_only(&ledger_options(config))?, None))
}

/// The gate's figures of a campaign and its unrecorded units; `None` if the campaign does not run or there is no gate.
async fn figures(
    gate: Option<&RedisGate>,
    campaign: &Campaign,
) -> anyhow::Result<Option<(PoolFigures, u32)>> {
    let Some(gate) = gate.filter(|_| campaign.runs()) else { return Ok(None) };
    let queued = gate.queued_units(campaign.id).await?;
    Ok(gate.figures(campaign.id).await?.map(|figures| (figures, queued)))
}

/// Free units of the gate minus free units of the ledger; `None` while claims or stock changes are in transit.
fn drift((figures, queued): (PoolFigures, u32), audit: &Audit) -> Option<i64> {
    if queued > 0 || figures.applied != audit.log_end {
        return None;
    }
    let tally = audit.tally;
    let free_in_ledger = i64::from(tally.stock) - i64::from(tally.awaiting_payment) - i64::from(tally.paid);
    Some(i64::from(figures.free) + i64::from(figures.in_transit) - free_in_ledger)
}

fn print(noun: &str, id: &str, audit: &Audit, drift: Option<i64>) {
    let sound = audit.violations.is_empty() && drift.unwrap_or(0) == 0;
    let verdict = if sound { "ok" } else { "BROKEN" };
    let tally = audit.tally;
    print_line!(
        "{noun} {id}  {verdict}  {} rows  stock {}  awaiting {}  paid {}  returned {}",
        audit.checked,
        tally.stock,
        tally.awaiting_payment,
        tally.paid,
        tally.returned
    );
    for violation in &audit.violations {
        print_line!("               {violation}");
    }
    if let Some(units) = drift.filter(|units| *units != 0) {
        print_line!("               the gate has {units} units more than the ledger says are free");
    }
}
