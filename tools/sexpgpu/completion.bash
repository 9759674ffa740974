# Completion of sexpgpu for bash: the tools, then what each of them completes.
_sexpgpu() {
  local word=${COMP_WORDS[COMP_CWORD]} tools tool complete
  tools=$(sexpgpu --help | sed -n 's/^\* \([a-z0-9-]*\) .*/\1/p')
  if [[ $COMP_CWORD == 1 ]]; then
    COMPREPLY=($(compgen -W "$tools help --help --version" -- "$word"))
  elif [[ ${COMP_WORDS[1]} == help ]]; then
    COMPREPLY=($(compgen -W "$tools" -- "$word"))
  else
    tool=sexpgpu-${COMP_WORDS[1]}
    if ! complete -p "$tool" &> /dev/null && declare -F _completion_loader > /dev/null; then _completion_loader "$tool"; fi
    complete=$(complete -p "$tool" 2> /dev/null | sed -n 's/.* -F \([^ ]*\) .*/\1/p')
    COMP_WORDS=("$tool" "${COMP_WORDS[@]:2}")
    COMP_CWORD=$((COMP_CWORD - 1))
    if [[ $complete ]]; then "$complete"; fi
  fi
}
complete -o filenames -o nospace -F _sexpgpu sexpgpu
