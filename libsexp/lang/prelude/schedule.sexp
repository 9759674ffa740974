;; Learning rates over the steps: functions of the step, an i32 scalar that counts from 0.

(defun rate-at (rate step)
  "The rate at a step: rate itself where it is a number, (rate step) where it is a schedule."
  (if (function? rate) (rate step) rate))

(defun constant (rate)
  "The same rate at every step."
  (lambda (step) rate))

(defun warmup (rate &key steps)
  "The rate, or schedule, times (step + 1) / steps over the first steps."
  (lambda (step) (* (rate-at rate step) (min 1 (/ (+ (cast step f32) 1) steps)))))

(defun progress-between (step begin end)
  "How far the step is from begin to end, 0 to 1."
  (assert (> end begin) "the :total steps of a schedule are more than those of its :warmup, found " end " and " begin)
  (min 1 (max 0 (/ (- (cast step f32) begin) (- end begin)))))

(defun with-warmup (schedule steps)
  (if (> steps 0) (warmup schedule :steps steps) schedule))

(defun linear-decay (&key peak total (warmup 0) (final 0))
  "Up to the peak over :warmup steps, then in a straight line down to :final at step :total."
  (with-warmup (lambda (step) (+ peak (* (- final peak) (progress-between step warmup total)))) warmup))

(defun cosine (&key peak total (warmup 0) (final 0))
  "Up to the peak over :warmup steps, then along half a cosine down to :final at step :total."
  (with-warmup
    (lambda (step)
      (+ final (* (/ (- peak final) 2) (+ 1 (cos (* 3.141592653589793 (progress-between step warmup total)))))))
    warmup))
