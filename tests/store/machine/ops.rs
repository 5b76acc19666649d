//! The operations on a store, by teamster and by other programs.

use proptest::prelude::*;

/// One operation. Numbers choose among what exists at that moment.
#[derive(Clone, Debug)]
pub enum Op {
    Create {
        blockers: Vec<u8>,
        owner: Option<u8>,
    },
    Claim {
        worker: u8,
        ghost: bool,
    },
    ClaimId {
        worker: u8,
        ghost: bool,
        task: u8,
    },
    Renew(u8),
    Complete(u8),
    Fail(u8),
    Release(u8),
    Force(u8),
    Retry(u8),
    Delete(u8),
    Retitle(u8),
    Assign(u8, Option<u8>),
    Block(u8, Vec<u8>),
    Send {
        to: u8,
        size: u16,
    },
    ToLead {
        from: u8,
        size: u16,
    },
    Broadcast {
        size: u16,
    },
    /// A message to a full box.
    Fill {
        to: u8,
    },
    Receive {
        who: u8,
        limit: u8,
        ack: bool,
    },
    Acknowledge {
        who: u8,
        which: u8,
    },
    Wait(u32),
    Foreign {
        task: u8,
        what: Foreign,
        in_place: bool,
    },
    ForeignCreate {
        skip: u8,
    },
    ForeignDelete(u8),
    LoseIndex(Damage),
    /// Reads every file for changes by other programs.
    Notice,
}

/// What another program does to a task file.
#[derive(Clone, Copy, Debug)]
pub enum Foreign {
    /// New keys at the top and in `metadata`, with all keys reordered.
    Keys,
    Subject,
    Owner,
    /// The change of a client whose teammate shuts down.
    PutBack,
    Completed,
}

/// Damage to an unprotected cache.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    Removed,
    Cut,
    Scribbled,
}

/// An operation, and when its process dies.
#[derive(Clone, Debug)]
pub struct Step {
    pub op: Op,
    /// The file operation before which it dies.
    pub dies: Option<u8>,
    /// The file operation before which the repairing process dies.
    pub mender_dies: Option<u8>,
}

fn foreign() -> impl Strategy<Value = Foreign> {
    prop_oneof![
        3 => Just(Foreign::Keys),
        2 => Just(Foreign::Subject),
        1 => Just(Foreign::Owner),
        2 => Just(Foreign::PutBack),
        2 => Just(Foreign::Completed),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let number = any::<u8>;
    let worker = || 0..3_u8;
    let blockers = || prop::collection::vec(number(), 0..3);
    let owner = || prop::option::weighted(0.3, worker());
    let size = || prop_oneof![Just(3_u16), Just(900), Just(9_000)];
    let ours = prop_oneof![
        8 => (blockers(), owner()).prop_map(|(blockers, owner)| Op::Create { blockers, owner }),
        8 => (worker(), any::<bool>()).prop_map(|(worker, ghost)| Op::Claim { worker, ghost }),
        4 => (worker(), any::<bool>(), number())
            .prop_map(|(worker, ghost, task)| Op::ClaimId { worker, ghost, task }),
        3 => number().prop_map(Op::Renew),
        6 => number().prop_map(Op::Complete),
        4 => number().prop_map(Op::Fail),
        2 => number().prop_map(Op::Release),
        1 => number().prop_map(Op::Force),
        2 => number().prop_map(Op::Retry),
        2 => number().prop_map(Op::Delete),
        1 => number().prop_map(Op::Retitle),
        1 => (number(), owner()).prop_map(|(task, owner)| Op::Assign(task, owner)),
        2 => (number(), blockers()).prop_map(|(task, blockers)| Op::Block(task, blockers)),
    ];
    let mail = prop_oneof![
        4 => (worker(), size()).prop_map(|(to, size)| Op::Send { to, size }),
        2 => (worker(), size()).prop_map(|(from, size)| Op::ToLead { from, size }),
        2 => size().prop_map(|size| Op::Broadcast { size }),
        1 => worker().prop_map(|to| Op::Fill { to }),
        4 => (0..4_u8, 1..9_u8, any::<bool>())
            .prop_map(|(who, limit, ack)| Op::Receive { who, limit, ack }),
        2 => (0..4_u8, number()).prop_map(|(who, which)| Op::Acknowledge { who, which }),
    ];
    let others = prop_oneof![
        6 => (number(), foreign(), any::<bool>())
            .prop_map(|(task, what, in_place)| Op::Foreign { task, what, in_place }),
        1 => (0..3_u8).prop_map(|skip| Op::ForeignCreate { skip }),
        1 => number().prop_map(Op::ForeignDelete),
        1 => prop_oneof![
            Just(Damage::Removed),
            Just(Damage::Cut),
            Just(Damage::Scribbled)
        ].prop_map(Op::LoseIndex),
        2 => Just(Op::Notice),
    ];
    let wait = prop_oneof![Just(1), Just(5), Just(31), Just(121)].prop_map(Op::Wait);
    prop_oneof![10 => ours, 3 => mail, 2 => others, 1 => wait]
}

/// Generates a step.
pub fn step() -> impl Strategy<Value = Step> {
    // Most changes are committed between the thirtieth and the sixtieth file operation.
    let when = || prop_oneof![1 => 0..160_u8, 2 => 25..75_u8];
    let dies = prop::option::weighted(0.5, when());
    let mender_dies = prop::option::weighted(0.4, when());
    (op(), dies, mender_dies).prop_map(|(op, dies, mender_dies)| Step {
        op,
        dies,
        mender_dies,
    })
}
