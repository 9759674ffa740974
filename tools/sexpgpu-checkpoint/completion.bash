# Completion of sexpgpu-checkpoint for bash.
_sexpgpu_checkpoint() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  if [[ $COMP_CWORD == 1 ]]; then
    COMPREPLY=($(compgen -W 'show ls verify digest diff choices tensors get cp bundle prune --help --version' -- "$word"))
  elif [[ $before == --keep || $before == -k ]]; then
    COMPREPLY=()
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(sexpgpu-checkpoint "$command" --help 2> /dev/null | grep -o -- '--[a-z-]*')" -- "$word"))
  elif [[ $command == get && $COMP_CWORD == 3 ]]; then
    COMPREPLY=($(compgen -W "$(sexpgpu-checkpoint tensors "${COMP_WORDS[2]}" 2> /dev/null | awk '{print $1}')" -- "$word"))
  elif [[ $command == bundle ]]; then
    COMPREPLY=($(compgen -d -- "$word") $(compgen -f -X '!*.tar' -- "$word"))
  else
    COMPREPLY=($(compgen -d -- "$word"))
  fi
}
complete -o filenames -o nospace -F _sexpgpu_checkpoint sexpgpu-checkpoint
