//! Tracks messages for one worker's agent from the store until the agent has received them.
//!
//! ```text
//!                ┌── prompt ──▶ InPrompt ──────────── the agent started ───┐
//! Waiting ───────┼── input ───▶ WithClient ────────── the client took it ──┼──▶ Told ──▶ acknowledged, in order
//!    ▲           ├── file ────▶ InInboxFile ───────── the program read it ─┤
//!    │           └── tool ─────────────────────────── the answer is out ───┘
//!    └──────────────── refused, or the attempt is over
//! ```
//!
//! The store's cursor moves past a message only when it and all earlier ones were delivered to the agent. A bridge that is
//! killed at any moment leaves every undelivered message to the next one: delivery is at least once, in order. While a
//! bridge lives, a message is in exactly one state, so it is not delivered twice.

use teamster_types::message::Message;

use crate::briefing::mail_that_fits;

/// The state of a message on its way to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryState {
    /// The message is not on its way yet.
    Waiting,
    /// The message is in the prompt of an agent that has not shown yet that it runs.
    InPrompt,
    /// The message was written to the client's input, and the client has not confirmed it yet.
    WithClient,
    /// The message was appended to the program's inbox file, which is not read yet.
    InInboxFile,
    /// The agent has the message, but it is not acknowledged in the store yet.
    Told,
}

/// A message that is not acknowledged yet.
#[derive(Clone, Debug)]
struct QueuedMessage {
    message: Message,
    state: DeliveryState,
}

/// The messages for an agent that are not acknowledged yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct AgentMail {
    queue: Vec<QueuedMessage>,
}

impl AgentMail {
    /// Adds a message that was read from the store, unless it is already queued.
    pub(super) fn add(&mut self, message: &Message) {
        let is_known = |queued: &QueuedMessage| queued.message.id() == message.id();
        if !self.queue.iter().any(is_known) {
            self.queue.push(QueuedMessage {
                message: message.clone(),
                state: DeliveryState::Waiting,
            });
        }
    }

    /// Returns whether every message is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the waiting messages that fit into a text of `limit` characters, and at least one if there is any.
    pub(super) fn waiting(&self, limit: usize) -> Vec<Message> {
        let mut waiting = self.all_in(DeliveryState::Waiting);
        waiting.truncate(mail_that_fits(&waiting, limit));
        waiting
    }

    /// Returns every message that the agent has not received.
    pub(super) fn undelivered(&self) -> impl Iterator<Item = &Message> {
        let undelivered = self.queue.iter();
        undelivered
            .filter(|queued| queued.state != DeliveryState::Told)
            .map(|queued| &queued.message)
    }

    /// Puts messages into the prompt of an attempt, and returns them.
    pub(super) fn put_into_prompt(&mut self, limit: usize) -> Vec<Message> {
        let messages = self.waiting(limit);
        self.set_state(&messages, DeliveryState::InPrompt);
        messages
    }

    /// Notes that the agent has received its prompt.
    pub(super) fn note_prompt_delivered(&mut self) {
        self.move_all(DeliveryState::InPrompt, DeliveryState::Told);
    }

    /// Notes that these messages were written to the client's input.
    pub(super) fn hand_to_client(&mut self, messages: &[Message]) {
        self.set_state(messages, DeliveryState::WithClient);
    }

    /// Notes that the client accepted the messages that were written to it.
    pub(super) fn note_accepted(&mut self) {
        self.move_all(DeliveryState::WithClient, DeliveryState::Told);
    }

    /// Notes that the client rejected the messages that were written to it.
    pub(super) fn note_rejected(&mut self) {
        self.move_all(DeliveryState::WithClient, DeliveryState::Waiting);
    }

    /// Notes that these messages were appended to the program's inbox file.
    pub(super) fn put_into_inbox_file(&mut self, messages: &[Message]) {
        self.set_state(messages, DeliveryState::InInboxFile);
    }

    /// Returns whether the inbox file contains messages that were not read yet.
    pub(super) fn is_inbox_file_unread(&self) -> bool {
        self.has(DeliveryState::InInboxFile)
    }

    /// Notes that the program read its inbox file.
    pub(super) fn note_inbox_file_read(&mut self) {
        self.move_all(DeliveryState::InInboxFile, DeliveryState::Told);
    }

    /// Returns the messages for a tool reply: those that wait, and those in an inbox file that is not read yet. Messages that
    /// were written to the client are already on their way, so they and all later ones are left out.
    pub(super) fn unread(&self, limit: usize) -> Vec<Message> {
        let is_unread = |queued: &&QueuedMessage| {
            matches!(
                queued.state,
                DeliveryState::Waiting | DeliveryState::InInboxFile
            )
        };
        let is_on_its_way = |queued: &&QueuedMessage| queued.state == DeliveryState::WithClient;
        // Later messages must not overtake those on their way.
        let before = self
            .queue
            .iter()
            .take_while(|queued| !is_on_its_way(queued));
        let unread = before.filter(is_unread);
        let mut unread: Vec<Message> = unread.map(|queued| queued.message.clone()).collect();
        unread.truncate(mail_that_fits(&unread, limit));
        unread
    }

    /// Notes that the agent received these messages in a tool reply.
    pub(super) fn note_delivered_by_tool(&mut self, messages: &[Message]) {
        self.set_state(messages, DeliveryState::Told);
    }

    /// Ends an attempt: messages that its agent did not receive wait for the next one.
    pub(super) fn end_attempt(&mut self) {
        for state in [
            DeliveryState::InPrompt,
            DeliveryState::WithClient,
            DeliveryState::InInboxFile,
        ] {
            self.move_all(state, DeliveryState::Waiting);
        }
    }

    /// Returns the id of the last message before the first undelivered one, for the store's cursor.
    pub(super) fn delivered_up_to(&self) -> Option<&str> {
        let told = self.queue.iter();
        let told = told.take_while(|queued| queued.state == DeliveryState::Told);
        told.last().map(|queued| queued.message.id())
    }

    /// Removes delivered messages once the store's cursor has passed them.
    pub(super) fn remove_delivered(&mut self) {
        let told = self.queue.iter();
        let count = told
            .take_while(|queued| queued.state == DeliveryState::Told)
            .count();
        self.queue.drain(..count);
    }

    fn has(&self, state: DeliveryState) -> bool {
        self.queue.iter().any(|queued| queued.state == state)
    }

    fn all_in(&self, state: DeliveryState) -> Vec<Message> {
        let there = self.queue.iter().filter(|queued| queued.state == state);
        there.map(|queued| queued.message.clone()).collect()
    }

    fn set_state(&mut self, messages: &[Message], state: DeliveryState) {
        for queued in &mut self.queue {
            let is_meant = |message: &Message| message.id() == queued.message.id();
            if queued.state != DeliveryState::Told && messages.iter().any(is_meant) {
                queued.state = state;
            }
        }
    }

    fn move_all(&mut self, from: DeliveryState, to: DeliveryState) {
        for queued in &mut self.queue {
            if queued.state == from {
                queued.state = to;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use teamster_types::Time;

    use super::*;

    const LIMIT: usize = 50_000;

    fn message(number: usize) -> Message {
        let id = format!("m{number}");
        Message::new(&id, "message", "lead", "ann", "text", Time::from_millis(0))
    }

    fn ids(messages: &[Message]) -> Vec<&str> {
        messages.iter().map(Message::id).collect()
    }

    fn mail(count: usize) -> AgentMail {
        let mut mail = AgentMail::default();
        for number in 0..count {
            mail.add(&message(number));
        }
        mail
    }

    #[test]
    fn message_in_a_prompt_that_was_never_read_is_in_the_next_one() {
        let mut mail = mail(2);
        assert_eq!(ids(&mail.put_into_prompt(LIMIT)), ["m0", "m1"]);
        mail.add(&message(2));
        mail.end_attempt();
        assert_eq!(mail.delivered_up_to(), None);
        assert_eq!(ids(&mail.put_into_prompt(LIMIT)), ["m0", "m1", "m2"]);
        mail.note_prompt_delivered();
        assert_eq!(mail.delivered_up_to(), Some("m2"));
        mail.remove_delivered();
        assert!(mail.is_empty());
    }

    #[test]
    fn what_was_refused_or_left_unread_waits_for_the_next_prompt() {
        let mut mail = mail(3);
        mail.hand_to_client(&[message(0)]);
        mail.note_rejected();
        assert_eq!(ids(&mail.waiting(LIMIT)), ["m0", "m1", "m2"]);
        mail.hand_to_client(&[message(0)]);
        mail.note_accepted();
        mail.put_into_inbox_file(&[message(1)]);
        assert!(mail.is_inbox_file_unread());
        mail.end_attempt();
        assert_eq!(mail.delivered_up_to(), Some("m0"));
        assert_eq!(ids(&mail.put_into_prompt(LIMIT)), ["m1", "m2"]);
    }

    #[test]
    fn tool_tells_what_nobody_has_and_nothing_that_is_on_its_way() {
        let mut mail = mail(2);
        mail.put_into_inbox_file(&[message(0)]);
        let unread = mail.unread(LIMIT);
        assert_eq!(ids(&unread), ["m0", "m1"]);
        mail.note_delivered_by_tool(&unread);
        assert!(mail.unread(LIMIT).is_empty() && !mail.is_inbox_file_unread());
        mail.add(&message(2));
        mail.hand_to_client(&[message(2)]);
        mail.add(&message(3));
        assert!(mail.unread(LIMIT).is_empty());
        mail.note_accepted();
        assert_eq!(ids(&mail.unread(LIMIT)), ["m3"]);
    }

    /// A step in the life of a worker and its mail.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arrives,
        BridgeReads,
        AttemptBegins,
        AgentStarts,
        HandedToClient,
        ClientTakes,
        ClientRefuses,
        ReceiptIsSeen,
        PutIntoFile,
        ProgramReads,
        FileIsLookedAt,
        ToolAnswers,
        AttemptEnds,
        Acknowledged,
        BridgeIsKilled,
    }

    const STEPS: [Step; 15] = [
        Step::Arrives,
        Step::BridgeReads,
        Step::AttemptBegins,
        Step::AgentStarts,
        Step::HandedToClient,
        Step::ClientTakes,
        Step::ClientRefuses,
        Step::ReceiptIsSeen,
        Step::PutIntoFile,
        Step::ProgramReads,
        Step::FileIsLookedAt,
        Step::ToolAnswers,
        Step::AttemptEnds,
        Step::Acknowledged,
        Step::BridgeIsKilled,
    ];

    #[allow(
        clippy::struct_excessive_bools,
        reason = "each is a fact of its own that a step may change"
    )]
    /// A store, a bridge and an agent.
    #[derive(Default)]
    struct World {
        sent: usize,
        /// How many messages the store's cursor has passed.
        cursor: usize,
        mail: AgentMail,
        is_attempt: bool,
        is_started: bool,
        prompt: Vec<Message>,
        with_client: Vec<Message>,
        /// Whether the client accepted the messages with it, which the bridge may not have seen yet.
        is_taken: bool,
        file: Vec<Message>,
        /// The messages that agents have received, in order.
        heard: Vec<String>,
        /// Whether an agent may have received messages whose receipt the bridge never saw.
        is_doubtful: bool,
    }

    impl World {
        fn hear(&mut self, messages: &[Message]) {
            let heard = messages.iter().map(|message| message.id().to_owned());
            self.heard.extend(heard);
        }

        fn end_attempt(&mut self) {
            self.is_doubtful |= self.is_taken;
            (self.is_attempt, self.is_started, self.is_taken) = (false, false, false);
            self.prompt.clear();
            self.with_client.clear();
            self.file.clear();
        }

        fn apply(&mut self, step: Step) {
            let is_at_work = self.is_attempt && self.is_started;
            match step {
                Step::Arrives => self.sent += 1,
                Step::BridgeReads => {
                    for number in self.cursor..self.sent {
                        self.mail.add(&message(number));
                    }
                }
                Step::AttemptBegins if !self.is_attempt => {
                    self.is_attempt = true;
                    self.prompt = self.mail.put_into_prompt(LIMIT);
                }
                Step::AgentStarts if self.is_attempt && !self.is_started => {
                    self.is_started = true;
                    self.hear(&self.prompt.clone());
                    self.mail.note_prompt_delivered();
                }
                // A client accepts messages in only one way.
                Step::HandedToClient
                    if is_at_work
                        && self.with_client.is_empty()
                        && !self.mail.is_inbox_file_unread() =>
                {
                    self.with_client = self.mail.waiting(LIMIT);
                    self.mail.hand_to_client(&self.with_client);
                }
                Step::ClientTakes if !self.with_client.is_empty() && !self.is_taken => {
                    self.is_taken = true;
                    self.hear(&self.with_client.clone());
                }
                Step::ClientRefuses if !self.is_taken => {
                    self.with_client.clear();
                    self.mail.note_rejected();
                }
                Step::ReceiptIsSeen if self.is_taken => {
                    self.mail.note_accepted();
                    self.is_taken = false;
                    self.with_client.clear();
                }
                Step::PutIntoFile if is_at_work && self.with_client.is_empty() => {
                    let messages = self.mail.waiting(LIMIT);
                    self.mail.put_into_inbox_file(&messages);
                    self.file.extend(messages);
                }
                // The bridge checks the file before it is removed, so reading and checking are one step.
                Step::ProgramReads | Step::FileIsLookedAt if self.mail.is_inbox_file_unread() => {
                    let file = std::mem::take(&mut self.file);
                    self.hear(&file);
                    self.mail.note_inbox_file_read();
                }
                Step::ToolAnswers if is_at_work => {
                    let unread = self.mail.unread(LIMIT);
                    self.hear(&unread);
                    self.mail.note_delivered_by_tool(&unread);
                    // A program that reads its mail with a tool does not read its file.
                    self.file.clear();
                }
                Step::AttemptEnds if self.is_attempt => {
                    self.end_attempt();
                    self.mail.end_attempt();
                }
                Step::Acknowledged => {
                    if let Some(last) = self.mail.delivered_up_to() {
                        let number: usize = last[1..].parse().unwrap();
                        self.cursor = number + 1;
                        self.mail.remove_delivered();
                    }
                }
                Step::BridgeIsKilled => {
                    let told = self.mail.delivered_up_to().is_some();
                    self.is_doubtful |= told
                        || self
                            .mail
                            .queue
                            .iter()
                            .any(|queued| queued.state == DeliveryState::Told);
                    self.end_attempt();
                    self.mail = AgentMail::default();
                }
                _ => {}
            }
        }

        fn check(&self) -> Result<(), TestCaseError> {
            for number in 0..self.cursor {
                let id = format!("m{number}");
                prop_assert!(
                    self.heard.contains(&id),
                    "{id} is acknowledged and was told to nobody"
                );
            }
            let mut first = Vec::new();
            for id in &self.heard {
                if first.contains(&id) {
                    prop_assert!(self.is_doubtful, "{id} was told twice");
                } else {
                    first.push(id);
                }
            }
            let numbers = first.iter().map(|id| id[1..].parse::<usize>().unwrap());
            let numbers: Vec<usize> = numbers.collect();
            prop_assert!(numbers.is_sorted(), "out of order: {numbers:?}");
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_message_is_lost_overtaken_or_told_twice(
            steps in prop::collection::vec(prop::sample::select(STEPS.to_vec()), 0..60)
        ) {
            let mut world = World::default();
            for step in steps {
                world.apply(step);
                world.check()?;
            }
            // Whatever happened before, the next agent that starts receives every message.
            for step in [
                Step::AttemptEnds,
                Step::BridgeReads,
                Step::AttemptBegins,
                Step::AgentStarts,
                Step::Acknowledged,
            ] {
                world.apply(step);
                world.check()?;
            }
            prop_assert_eq!(world.cursor, world.sent);
        }
    }
}
