# Completion of sexpgpu-evaluate for bash.
_sexpgpu_evaluate() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  case $before in
    --metrics | -m) COMPREPLY=($(compgen -W 'stdout jsonl: syvain' -- "$word")) ;;
    --device | -d) COMPREPLY=($(compgen -W 'cpu cuda' -- "$word")) ;;
    --choices) COMPREPLY=($(compgen -W 'fresh -' -- "$word") $(compgen -f -- "$word")) ;;
    --file | -f) COMPREPLY=($(compgen -f -X '!*.sexp' -- "$word") $(compgen -d -- "$word")) ;;
    --status) COMPREPLY=($(compgen -f -- "$word")) ;;
    --eval | -e | --steps | --poll | --threads | -t) COMPREPLY=() ;;
    *)
      if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(sexpgpu-evaluate --help | grep -o -- '--[a-z-]*')" -- "$word"))
      else
        COMPREPLY=($(compgen -d -- "$word"))
      fi
      ;;
  esac
}
complete -o filenames -o nospace -F _sexpgpu_evaluate sexpgpu-evaluate
