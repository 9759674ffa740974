# Completion of sexpgpu-explain for bash.
_sexpgpu_explain() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  case $before in
    --after | -a) COMPREPLY=($(compgen -W 'gradient simplify cse dce' -- "$word")) ;;
    --device | -d) COMPREPLY=($(compgen -W 'cpu cuda' -- "$word")) ;;
    --choices) COMPREPLY=($(compgen -W 'fresh -' -- "$word") $(compgen -f -- "$word")) ;;
    --run | -r | --variant | --set | -s | --steps | -n | --eval-every | --threads | -t) COMPREPLY=() ;;
    *)
      if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(sexpgpu-explain --help | grep -o -- '--[a-z-]*')" -- "$word"))
      else
        COMPREPLY=($(compgen -f -X '!*.sexp' -- "$word") $(compgen -d -- "$word"))
      fi
      ;;
  esac
}
complete -o filenames -o nospace -F _sexpgpu_explain sexpgpu-explain
