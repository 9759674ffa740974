(def from-deeper (str "deep" 3))
