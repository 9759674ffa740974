# Completion of sexpgpu-choices for bash.
_sexpgpu_choices() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  if [[ $COMP_CWORD == 1 ]]; then
    COMPREPLY=($(compgen -W 'list show why export import merge diff rm prune check verify path --help --version' -- "$word"))
  elif [[ $before == --kind || $before == -k ]]; then
    COMPREPLY=($(compgen -W 'convolution node_gradients product recompute stacking' -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(sexpgpu-choices "$command" --help 2> /dev/null | grep -o -- '--[a-z-]*')" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _sexpgpu_choices sexpgpu-choices
