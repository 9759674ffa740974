;; Starting values of parameters: functions of a shape, for :init.

(defun fans-of (shape out-axis)
  "[fan-in fan-out] of a weight: what one output sums over, and how many outputs one input reaches. The outputs are on
out-axis, 0 or -1, the inputs on the axis at the other end, a kernel's height and width between them."
  (let ((n (fold * 1 shape))
        (last (- (length shape) 1)))
    (assert (> last 0) "an initializer by fan needs two axes or more, not " shape)
    (assert (or (= out-axis 0) (= out-axis -1)) ":out-axis is 0 or -1, not " out-axis)
    (let ((outs (nth shape (if (= out-axis 0) 0 last)))
          (ins (nth shape (if (= out-axis 0) last 0))))
      [(/ n outs) (/ n ins)])))

(defun draw-of-variance (shape v distribution)
  (cond ((= distribution "normal") (normal shape :std (sqrt v)))
        ((= distribution "uniform") (uniform shape :low (- (sqrt (* 3 v))) :high (sqrt (* 3 v))))
        (else (error ":distribution is \"normal\" or \"uniform\", not " distribution))))

(defun glorot (shape &key (gain 1) (distribution "uniform") (out-axis 0))
  "Variance 2 gain^2 / (fan-in + fan-out), for linear units and tanh. Weights are [out ... in], as linear and conv take
them; for a matrix [in out] say :out-axis -1 (here it makes no difference)."
  (let ((fans (fans-of shape out-axis)))
    (draw-of-variance shape (/ (* 2 gain gain) (+ (first fans) (nth fans 1))) distribution)))

(defun he (shape &key (gain (sqrt 2)) (distribution "normal") (out-axis 0))
  "Variance gain^2 / fan-in, for relu. Weights are [out ... in]; for a matrix [in out] say :out-axis -1."
  (draw-of-variance shape (/ (* gain gain) (first (fans-of shape out-axis))) distribution))

(defun polynomial (x coefficients)
  "The polynomial, highest coefficient first."
  (fold (lambda (y c) (+ (* y x) c)) (first coefficients) (rest coefficients)))

(defun erf-inverse (x)
  "The inverse of erf on (-1, 1). Giles, Approximating the erfinv function, 2010: single precision."
  (let ((w (- (log1p (* (- x) x))))
        (near (polynomial (- w 2.5)
                          [2.81022636e-08 3.43273939e-07 -3.5233877e-06 -4.39150654e-06 0.00021858087 -0.00125372503
                           -0.00417768164 0.246640727 1.50140941]))
        (far (polynomial (- (sqrt w) 3)
                         [-0.000200214257 0.000100950558 0.00134934322 -0.00367342844 0.00573950773 -0.0076224613
                          0.00943887047 1.00167406 2.83297682])))
    (* x (where (< w 5) near far))))

(defun truncated-normal (shape &key (mean 0) (std 1) (low -2) (high 2))
  "A normal draw given that it lies between low and high standard deviations from the mean."
  (let ((root (sqrt 2))
        (lower (erf (full [] (/ low root))))
        (upper (erf (full [] (/ high root))))
        (z (* root (erf-inverse (+ lower (* (- upper lower) (uniform shape)))))))
    (+ mean (* std (min (max z low) high)))))
