import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * Clients that set or get nodes of ZooKeeper, each again as soon as it is answered.
 *
 * <p>Arguments: servers, "put" or "get_stale", clients, seconds, bytes of a value, nodes. The clients
 * share up to 16 connections. Prints one line of JSON.
 */
public final class ZooKeeperLoad {
  private static final int CONNECTIONS_MAX = 16;
  private static final double WARM_UP_S = 1.0;

  private static volatile long measureFromNs = Long.MAX_VALUE;
  private static volatile long endNs = Long.MAX_VALUE;
  private static final AtomicLong operations = new AtomicLong();
  private static final AtomicLong lastAnswerNs = new AtomicLong();
  private static volatile int failure = 0;

  /** One client: at most one operation under way, so its fields need no lock. */
  private static final class Client
      implements AsyncCallback.StatCallback, AsyncCallback.DataCallback {
    private final ZooKeeper connection;
    private final boolean writes;
    private final int keys;
    private final byte[] value;
    private final int step;
    private final CountDownLatch ended;
    private int number;
    private long beganNs;
    long[] takenNs = new long[1024];
    int measured;

    Client(ZooKeeper connection, boolean writes, int keys, byte[] value, int number, int step,
        CountDownLatch ended) {
      this.connection = connection;
      this.writes = writes;
      this.keys = keys;
      this.value = value;
      this.number = number;
      this.step = step;
      this.ended = ended;
    }

    void call() {
      String path = "/bench-" + Math.floorMod(number, keys);
      number += step;
      beganNs = System.nanoTime();
      if (writes) {
        connection.setData(path, value, -1, this, null);
      } else {
        connection.getData(path, false, (AsyncCallback.DataCallback) this, null);
      }
    }

    @Override
    public void processResult(int code, String path, Object context,
        org.apache.zookeeper.data.Stat stat) {
      answered(code);
    }

    @Override
    public void processResult(int code, String path, Object context, byte[] data,
        org.apache.zookeeper.data.Stat stat) {
      answered(code);
    }

    private void answered(int code) {
      long now = System.nanoTime();
      operations.incrementAndGet();
      if (code != KeeperException.Code.OK.intValue()) {
        failure = code;
      }
      if (beganNs >= measureFromNs) {
        if (measured == takenNs.length) {
          takenNs = Arrays.copyOf(takenNs, measured * 2);
        }
        takenNs[measured++] = now - beganNs;
        lastAnswerNs.accumulateAndGet(now, Math::max);
      }
      if (now < endNs && failure == 0) {
        call();
      } else {
        ended.countDown();
      }
    }
  }

  private static ZooKeeper connect(String servers) throws Exception {
    CountDownLatch connected = new CountDownLatch(1);
    ZooKeeper connection = new ZooKeeper(servers, 30_000, event -> {
      if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
        connected.countDown();
      }
    });
    if (!connected.await(60, TimeUnit.SECONDS)) {
      throw new IllegalStateException("no connection to " + servers + " within 60 s");
    }
    return connection;
  }

  public static void main(String[] arguments) throws Exception {
    boolean writes = arguments[1].equals("put");
    int count = Integer.parseInt(arguments[2]);
    double seconds = Double.parseDouble(arguments[3]);
    byte[] value = new byte[Integer.parseInt(arguments[4])];
    int keys = Integer.parseInt(arguments[5]);
    new Random(1).nextBytes(value);
    List<ZooKeeper> connections = new ArrayList<>();
    for (int at = 0; at < Math.min(count, CONNECTIONS_MAX); at++) {
      connections.add(connect(arguments[0]));
    }
    for (int at = 0; at < keys; at++) {
      try {
        connections.get(0).create("/bench-" + at, value, ZooDefs.Ids.OPEN_ACL_UNSAFE,
            CreateMode.PERSISTENT);
      } catch (KeeperException.NodeExistsException exists) {
        break;
      }
    }
    CountDownLatch ended = new CountDownLatch(count);
    List<Client> clients = new ArrayList<>();
    for (int at = 0; at < count; at++) {
      ZooKeeper connection = connections.get(at % connections.size());
      clients.add(new Client(connection, writes, keys, value, at, count, ended));
    }
    long beganNs = System.nanoTime();
    measureFromNs = beganNs + (long) (WARM_UP_S * 1e9);
    endNs = measureFromNs + (long) (seconds * 1e9);
    clients.forEach(Client::call);
    if (!ended.await((long) seconds + 60, TimeUnit.SECONDS) || failure != 0) {
      throw new IllegalStateException("operations failed or hang, code " + failure);
    }
    long[] all = clients.stream()
        .flatMapToLong(client -> Arrays.stream(client.takenNs, 0, client.measured))
        .sorted().toArray();
    for (ZooKeeper connection : connections) {
      connection.close();
    }
    System.out.println(String.format(Locale.ROOT,
        "{\"operations\": %d, \"all_operations\": %d, \"seconds\": %.6f, \"p50_ms\": %.4f, "
            + "\"p99_ms\": %.4f}",
        all.length, operations.get(), (lastAnswerNs.get() - measureFromNs) / 1e9,
        all[all.length / 2] / 1e6, all[(int) (all.length * 0.99)] / 1e6));
  }
}
