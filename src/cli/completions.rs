//! `skds completions`: scripts that let a shell complete commands and options.

use super::command::Command;
use super::{Cli, print};
use crate::Result;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print a script that completes skds commands and options in your shell.
///
/// Load the script when your shell starts, as in the examples. Supported shells are bash, zsh, fish, PowerShell and elvish.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  # bash: in this session, and in all new ones
  source <(skds completions bash)
  skds completions bash > ~/.local/share/bash-completion/completions/skds

  # zsh: into a folder of $fpath
  skds completions zsh > ~/.zfunc/_skds

  # fish
  skds completions fish > ~/.config/fish/completions/skds.fish")]
pub(super) struct Args {
    /// The shell: bash, zsh, fish, powershell or elvish
    #[arg(value_enum, hide_possible_values = true)]
    shell: Shell,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut visible(&Cli::command()), "skds", &mut script);
        print::print_bytes(&script)
    }
}

/// What a shell needs to know of a command, without hidden options and commands: scripts would show those too.
pub(super) fn visible(command: &clap::Command) -> clap::Command {
    let mut shown = clap::Command::new(command.get_name().to_owned());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let commands = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.args(arguments.cloned()).subcommands(commands.map(visible))
}
