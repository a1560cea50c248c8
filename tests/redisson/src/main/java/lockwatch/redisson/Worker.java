package lockwatch.redisson;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;

/** A named thread of a client: Redisson's locks belong to threads. */
final class Worker {
    private final ExecutorService executor;
    private volatile Thread thread;
    private volatile Future<?> last;

    Worker(String name) {
        executor = Executors.newSingleThreadExecutor(task -> {
            thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Runs the task on the thread and waits for it; refuses when the thread is still busy with another. */
    <T> T run(Callable<T> task) throws Exception {
        try {
            return start(task).get();
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    /** Starts the task on the thread; refuses when the thread is still busy with another. */
    <T> Future<T> start(Callable<T> task) {
        Future<?> before = last;
        if (before != null && !before.isDone()) {
            throw new IllegalStateException("the thread is busy");
        }
        Future<T> future = executor.submit(task);
        last = future;
        return future;
    }

    /** Breaks off what the thread waits for. */
    boolean interrupt() {
        Future<?> before = last;
        return before != null && before.cancel(true);
    }

    /** Whether the thread waits in {@code lock()} for the message of a release: it is subscribed and parked. */
    boolean awaitsRelease() {
        Thread waiting = thread;
        if (waiting == null || waiting.getState() == Thread.State.RUNNABLE) {
            return false;
        }
        for (StackTraceElement frame : waiting.getStackTrace()) {
            if (frame.getClassName().equals(Semaphore.class.getName())) {
                return true;
            }
        }
        return false;
    }

    /** The id that Redisson puts into the holder. */
    long threadId() throws Exception {
        Thread started = thread;
        return started == null ? run(() -> Thread.currentThread().getId()) : started.getId();
    }
}
