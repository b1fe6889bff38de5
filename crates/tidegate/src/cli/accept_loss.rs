//! `tidegate accept-loss`: lets a server sell again although its ledger or its journal has lost confirmed changes.
//!
//! It repairs nothing: it notes that what is missing is missed no longer. Without a loss it changes nothing, so it has
//! no effect on losses to come.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tidegate_admission::cluster::newest_event::NewestEvent;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::embedded::continuity::{JournalFound, Loss, journal_in};
use tidegate_admission::embedded::data_dir::DataDir;
use tidegate_app::ledger_history::ACCEPTED_AT;
use tidegate_ledger::{NoObserver, SqlLedger};
use tidegate_rehearse::print_line;

use super::{Outcome, SettingsArgs};
use crate::config::Config;
use crate::embedded::ledger_options;

#[derive(Debug, Args)]
pub(super) struct AcceptLossArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) async fn run(args: AcceptLossArgs) -> anyhow::Result<Outcome> {
    let (config, _) = args.settings.load()?;
    if config.is_cluster() {
        return accept_on_cluster(&config).await;
    }
    let _data_dir = DataDir::lock(&config.data_dir)?;
    let found = JournalFound::look(&config.data_dir)?;
    let ledger = SqlLedger::open(&ledger_options(&config), Box::new(NoObserver))?;
    let compared = found.compare(ledger.progress().await?, ledger.has_journal().await?);
    if compared.losses.is_empty() {
        print_line!("Nothing is lost: journal and ledger in {} agree.", config.data_dir.display());
        return Ok(Outcome::Passed);
    }
    for loss in &compared.losses {
        print_line!("Accepted: {loss}.");
        match loss {
            Loss::Changes { .. } | Loss::Claims { .. } => ledger.give_up_until(compared.accepted).await?,
            Loss::Journal { .. } => ledger.note_journal(false).await?,
            Loss::JournalEnd { .. } => {
                // Kept for whoever wants to look into it; the next start begins a new one.
                let journal = journal_in(&config.data_dir);
                let aside = journal.with_extension(format!("until-{}", compared.accepted.recorded));
                std::fs::rename(&journal, &aside)?;
                print_line!("The old journal is now in {}.", aside.display());
                ledger.note_journal(false).await?;
            }
        }
    }
    ledger.close();
    print_line!(
        "The server can be started. Reconcile with your payment provider and check with `tidegate audit`."
    );
    Ok(Outcome::Passed)
}

/// Lets nodes sell although PostgreSQL lacks changes that they have seen. Gates are rebuilt from what is left, but not
/// where no event is missing: a rebuild rejects the claims that wait to be recorded.
async fn accept_on_cluster(config: &Config) -> anyhow::Result<Outcome> {
    let ledger = crate::cluster::ledger(config, Arc::new(NoObserver))?;
    ledger.migrate().await.context("PostgreSQL cannot be used")?;
    let redis = Link::open(&config.redis_url).await.context("Redis cannot be used")?;
    let newest_event = NewestEvent::new(redis, &config.cluster.prefix);
    let (seen, newest) = (newest_event.get().await?, ledger.events.newest().await?);
    let now = ledger.leases.database_time().await?.context("PostgreSQL has a clock")?;
    if seen > newest {
        newest_event.reset_to(newest).await?;
        for campaign in ledger.campaigns.running().await? {
            ledger.stock.reseed(campaign.id, now).await?;
        }
    }
    ledger.settings.set(ACCEPTED_AT, now.millis().to_be_bytes().to_vec()).await?;
    ledger.close();
    print_line!("Accepted: the database ends with event {newest}, and nodes have seen event {seen}.");
    print_line!(
        "Nodes sell again within a second. Reconcile with your payment provider and check with `tidegate audit`."
    );
    Ok(Outcome::Passed)
}
