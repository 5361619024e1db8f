//! What a command is, and the list of all of them: adding a command means a file and a line here.

use super::*;

/// A command of `skds`, with its arguments.
pub(super) trait Command {
    /// Runs it in this process.
    fn run(&self) -> Result<()>;

    /// Whether it looks for GPUs, which makes drivers speak.
    fn looks_for_gpus(&self) -> bool {
        false
    }

    /// Runs it on a server.
    #[cfg(feature = "serve")]
    fn run_remote(&self, _: &remote::Remote) -> Result<()> {
        Err(Error::invalid(
            "this command does not run on a server: leave out --server, or run fit, loss, sample, evaluate or simulate",
        ))
    }
}

/// Declares [`AnyCommand`] from the list of commands.
macro_rules! commands {
    ($($(#[$attribute:meta])? $name:ident($args:ty),)+) => {
        /// One of the commands.
        #[derive(clap::Subcommand)]
        pub(super) enum AnyCommand {
            $($(#[$attribute])? $name(Box<$args>),)+
        }

        impl AnyCommand {
            /// The command itself.
            pub(super) fn inner(&self) -> &dyn Command {
                match self {
                    $($(#[$attribute])? AnyCommand::$name(args) => &**args,)+
                }
            }
        }
    };
}

commands! {
    Fit(fit::Args),
    Graph(graph::Args),
    Sample(sample::Args),
    Evaluate(evaluate::Args),
    Suggest(suggest::Args),
    Loss(loss::Args),
    Convexity(convexity::Args),
    Simulate(simulate::Args),
    Experiment(experiment::Args),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    Devices(devices::Args),
    Validate(validate::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[cfg(feature = "serve")]
    Work(work::Args),
}
