//! Piping: a future on the attached tokio runtime whose output comes back as a message.

use std::future::Future;

use freeboard_flow::ShedReason;

use crate::{
    actor::{Actor, Message},
    context::Context,
    receives::Receives,
    system::NoRuntime,
};

impl<A: Actor> Context<A> {
    /// Starts `future` on the attached tokio runtime; its output, made a message by `into_msg`, is
    /// sent to this actor. The actor handles other messages meanwhile. The sending waits for room if
    /// the lane's policy says so; if the actor has ended by then, the output is a dead letter. A
    /// future that panics is logged and counted as a dead letter.
    ///
    /// # Errors
    /// [`NoRuntime`] if no tokio runtime is attached.
    pub fn pipe<F, M, K>(
        &self,
        future: F,
        into_msg: impl FnOnce(F::Output) -> M + Send + 'static,
    ) -> Result<(), NoRuntime>
    where
        F: Future + Send + 'static,
        M: Message,
        A: Receives<M, K>,
    {
        let actor = self.actor_ref();
        let runtime = actor
            .cell()
            .core()
            .system
            .runtime
            .clone()
            .ok_or(NoRuntime)?;
        let watched = actor.clone();
        let piped = runtime.spawn(async move {
            let msg = into_msg(future.await);
            let core = actor.cell().core();
            // What is refused comes back here, where nobody can take it.
            match actor.send(msg).await {
                Ok(()) => {}
                Err(refused) => {
                    let reason = match refused {
                        crate::TellError::Full(_) => ShedReason::Full,
                        _ => ShedReason::Stopped,
                    };
                    let message_type = std::any::type_name::<M>();
                    core.system.dead_letters.note(core, message_type, reason);
                }
            }
        });
        runtime.spawn(async move {
            if let Err(error) = piped.await
                && error.is_panic()
            {
                let core = watched.cell().core();
                tracing::error!(actor = core.id().get(), "a piped future panicked");
                let message_type = std::any::type_name::<M>();
                core.system
                    .dead_letters
                    .note(core, message_type, ShedReason::HandlerPanicked);
            }
        });
        Ok(())
    }
}
