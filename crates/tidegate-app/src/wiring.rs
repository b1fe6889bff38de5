//! Wires the services together. The only place that distinguishes the embedded deployment from a cluster.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::Admission;
use tidegate_core::IdSource;
use tidegate_ledger::{CodeLimits, SqlLedger};
use tokio::sync::Notify;

use crate::accounts::{AccountRules, Accounts};
use crate::audit::Auditing;
use crate::campaigns::Campaigns;
use crate::catalogue::Catalogue;
use crate::challenges::Challenges;
use crate::changes::Changes;
use crate::clock::Clock;
use crate::commitments::Commitments;
use crate::context::Context;
use crate::deliveries::{Deliveries, DeliveryParts, DeliveryRules};
use crate::digest::Secret;
use crate::directory::CampaignDirectory;
use crate::events::EventLog;
use crate::gate_sync::{GateSync, Repair};
use crate::health::Health;
use crate::housekeeping::Housekeeping;
use crate::live::{FigureSources, LiveFigures, Meters};
use crate::metrics::Metrics;
use crate::node::{Leases, NodeDuties, NodeNumber};
use crate::operators::Operators;
use crate::order_watchers::Watchers;
use crate::ordering::Ordering;
use crate::ordering::attempt::Attempts;
use crate::ordering::claims::Claims;
use crate::ordering::rates::Rates;
use crate::outbound_http::OutboundHttp;
use crate::passes::Passes;
use crate::passwords::Passwords;
use crate::payments::Provider;
use crate::plays::Plays;
use crate::preflight::Preflight;
use crate::proofs::Proofs;
use crate::sessions::{RECHECK_AFTER, Sessions};
use crate::sms::Sms;
use crate::stock_counts::StockCounts;
use crate::storefront::Storefront;
use crate::storefront_cache::StorefrontCache;
use crate::waiting_rooms::WaitingRooms;
use crate::webhooks::{Coupons, Webhooks};
use crate::{App, LostClaims, Merchant, Node};

/// Configuration of the use cases.
#[derive(Clone, Debug)]
pub struct Rules {
    pub test_tokens: bool,
    pub require_approval: bool,
    pub answer_within: Duration,
    /// Maximum number of orders and plays that are decided concurrently.
    pub max_in_flight: usize,
    pub max_streams: usize,
    pub reveal_codes: bool,
    pub code_limits: CodeLimits,
    pub hashing_at_once: usize,
    pub deliveries: DeliveryRules,
    /// The merchant's endpoint for coupons, if configured.
    pub coupons: Option<Coupons>,
}

/// Backends and other dependencies that the program passes to `App::new`.
#[derive(Debug)]
pub struct Parts {
    pub admission: Arc<Admission>,
    pub ledger: Arc<SqlLedger>,
    pub provider: Provider,
    pub sms: Sms,
    pub outbound: OutboundHttp,
    pub merchant: Option<Merchant>,
    pub clock: Clock,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub rules: Rules,
    pub lost_claims: Arc<LostClaims>,
    /// Notified after each commit of this process.
    pub committed: Arc<Notify>,
    /// Key for public ids and derived tokens.
    pub secret: Secret,
    pub admin_key_digest: Secret,
    /// Embedded: new at every start, because the record of answered challenges is in memory. Cluster: the same on
    /// all nodes.
    pub challenge_secret: Secret,
    pub node: Node,
    /// The highest id in use.
    pub highest_id: u64,
}

impl App {
    #[expect(clippy::too_many_lines, reason = "a list of services with what each of them gets")]
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { admission, ledger, clock, health, metrics, rules, node, secret, .. } = parts;
        let cluster = admission.cluster().cloned();
        let ids = IdSource::new(node.number, parts.highest_id);
        let context = Arc::new(Context::new(clock.clone(), health.clone(), metrics.clone(), secret, ids));
        let watchers = Arc::new(Watchers::new(rules.max_streams));
        let changes = Arc::new(Changes::new(ledger.as_ref().into()));
        let directory = Arc::new(CampaignDirectory::new(ledger.as_ref().into()));
        let counts = Arc::new(StockCounts::new(admission.clone(), ledger.as_ref().into()));
        let commitments = Arc::new(Commitments::new(context.clone()));
        let meters = Arc::new(Meters::new(context.clone(), directory.clone()));
        let number = if cluster.is_some() { NodeNumber::leased() } else { NodeNumber::Fixed };
        let number = Arc::new(number);
        let gate = Arc::new(GateSync {
            context: context.clone(),
            admission: admission.clone(),
            ledger: ledger.as_ref().into(),
            directory: directory.clone(),
            changes: changes.clone(),
            watchers: watchers.clone(),
            repair: cluster.clone().map(|cluster| Repair::new(cluster, node.name.clone())),
        });
        let catalogue = Arc::new(Catalogue::new(
            context.clone(),
            admission.clone(),
            ledger.as_ref().into(),
            changes.clone(),
        ));
        let challenges = Arc::new(Challenges::new(
            context.clone(),
            &parts.challenge_secret,
            admission.once_only("challenge"),
        ));
        let passes = Arc::new(Passes {
            context: context.clone(),
            admission: admission.clone(),
            directory: directory.clone(),
            challenges: challenges.clone(),
            meters: meters.clone(),
        });
        let claims = Arc::new(Claims {
            context: context.clone(),
            admission: admission.clone(),
            ledger: ledger.as_ref().into(),
            directory: directory.clone(),
            number: number.clone(),
            lost: parts.lost_claims,
        });
        let passwords = Passwords::new(rules.hashing_at_once);
        let operators = Arc::new(Operators::new(
            context.clone(),
            ledger.as_ref().into(),
            changes.clone(),
            passwords.with_own_slots(1),
            parts.admin_key_digest,
        ));
        let accounts = Arc::new(Accounts {
            context: context.clone(),
            admission: admission.clone(),
            ledger: ledger.as_ref().into(),
            changes: changes.clone(),
            // In a cluster another node may have ended a session, so cached sessions are rechecked.
            sessions: Sessions::new(cluster.as_ref().map(|_| RECHECK_AFTER)),
            passwords,
            sms: parts.sms,
            merchant: parts.merchant,
            rules: AccountRules {
                test_tokens: rules.test_tokens,
                reveal_codes: rules.reveal_codes,
                code_limits: rules.code_limits,
            },
        });
        let auditing = Arc::new(Auditing {
            context: context.clone(),
            admission: admission.clone(),
            ledger: ledger.as_ref().into(),
            directory: directory.clone(),
            gate: gate.clone(),
            counts: counts.clone(),
            last_drift: parking_lot::Mutex::default(),
        });
        Arc::new(Self {
            campaigns: Campaigns {
                context: context.clone(),
                admission: admission.clone(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                gate: gate.clone(),
                changes: changes.clone(),
                counts: counts.clone(),
                commitments: commitments.clone(),
                approval_required: rules.require_approval,
                has_coupons: rules.coupons.is_some(),
            },
            storefront: Storefront {
                context: context.clone(),
                admission: admission.clone(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                counts: counts.clone(),
                catalogue: catalogue.clone(),
                commitments: commitments.clone(),
                cache: StorefrontCache::default(),
            },
            proofs: Proofs {
                admission: admission.clone(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                commitments: commitments.clone(),
            },
            preflight: Preflight {
                context: context.clone(),
                catalogue: catalogue.clone(),
                provider: parts.provider.clone(),
                approval_required: rules.require_approval,
                test_tokens: rules.test_tokens,
                reveal_codes: rules.reveal_codes,
            },
            attempts: Attempts::new(
                context.clone(),
                claims.clone(),
                accounts.clone(),
                meters.clone(),
                Rates::new(context.clone(), cluster.clone()),
                rules.max_in_flight,
            ),
            ordering: Ordering {
                context: context.clone(),
                admission: admission.clone(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                claims: claims.clone(),
                passes: passes.clone(),
                gate: gate.clone(),
                watchers: watchers.clone(),
                meters: meters.clone(),
                provider: parts.provider,
                unexpirable: parking_lot::Mutex::default(),
            },
            plays: Plays {
                context: context.clone(),
                admission: admission.clone(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                claims,
                passes: passes.clone(),
                commitments: commitments.clone(),
                answer_within: rules.answer_within,
            },
            waiting_rooms: WaitingRooms {
                context: context.clone(),
                admission: admission.clone(),
                rooms: admission.waiting_rooms(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                counts: counts.clone(),
                challenges: challenges.clone(),
                passes: passes.clone(),
                meters: meters.clone(),
            },
            webhooks: Webhooks {
                context: context.clone(),
                ledger: ledger.as_ref().into(),
                changes: changes.clone(),
                outbound: parts.outbound.clone(),
            },
            deliveries: Arc::new(Deliveries::new(DeliveryParts {
                context: context.clone(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                outbound: parts.outbound,
                rules: rules.deliveries,
                coupons: rules.coupons,
                wake: parts.committed,
            })),
            events: EventLog { ledger: ledger.as_ref().into() },
            live: LiveFigures::new(FigureSources {
                context: context.clone(),
                ledger: ledger.as_ref().into(),
                directory: directory.clone(),
                meters: meters.clone(),
                counts,
                rooms: admission.waiting_rooms(),
                auditing: auditing.clone(),
                node: node.name.clone(),
            }),
            node: NodeDuties {
                context: context.clone(),
                admission: admission.clone(),
                ledger: ledger.as_ref().into(),
                directory,
                gate: gate.clone(),
                catalogue: catalogue.clone(),
                accounts: accounts.clone(),
                number,
                leases: cluster.map(|_| Leases::new(ledger.as_ref().into(), node.name.clone())),
                started_at: clock.now(),
                database: ledger.clone(),
                gate_problem: parking_lot::Mutex::default(),
                ledger_problem: parking_lot::Mutex::default(),
                history: Arc::default(),
                node,
            },
            housekeeping: Housekeeping {
                context: context.clone(),
                ledger: ledger.clone(),
                operators: operators.clone(),
                challenges: challenges.clone(),
                passed: parking_lot::Mutex::default(),
            },
            clock,
            health,
            metrics,
            context,
            watchers,
            changes,
            catalogue,
            commitments,
            challenges,
            passes,
            accounts,
            operators,
            meters,
            auditing,
            gate,
            admission,
            ledger,
            closing: tokio::sync::watch::Sender::new(false),
        })
    }
}
