(def a "tab \t, bell \a")
(def b "\u{110000}")
