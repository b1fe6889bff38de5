//! `tidegate accept-loss`: lets an embedded server start although its ledger or its journal has lost confirmed changes.
//!
//! It repairs nothing: it notes that what is missing is missed no longer. Without a loss it changes nothing, so it has
//! no effect on losses to come.

use anyhow::bail;
use clap::Args;
use tidegate_admission::embedded::continuity::{JournalFound, Loss, journal_in};
use tidegate_admission::embedded::data_dir::DataDir;
use tidegate_ledger::{NoObserver, SqlLedger};
use tidegate_rehearse::print_line;

use super::{Outcome, SettingsArgs};
use crate::embedded::ledger_options;

#[derive(Debug, Args)]
pub(super) struct AcceptLossArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) async fn run(args: AcceptLossArgs) -> anyhow::Result<Outcome> {
    let (config, _) = args.settings.load()?;
    if config.is_cluster() {
        bail!("this is a cluster: its ledger is PostgreSQL, which has backups of its own");
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
